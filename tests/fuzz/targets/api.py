"""Requests of every verb to the embedded API server: answered, and never with a 5xx."""

import asyncio
import json
import re
from random import Random
from typing import Any
from urllib.parse import quote

from fuzz.corpus import Json, golden_objects
from fuzz.mutations import STRINGS, encode, hostile, mutate_bytes, mutate_json
from fuzz.target import PropertyError, Target, loaded
from moorage.apiserver import ApiServer
from moorage.kube.resources import RESOURCES

_SECONDS = 15.0
_REQUESTS_PER_SERVER = 500
_TYPES = (
    "application/json", "application/json", "application/json", "application/yaml", "",
    "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/json-patch+json", "application/apply-patch+yaml",
    "application/vnd.kubernetes.protobuf", "text/plain", "application/json; charset=utf-16",
)  # fmt: skip
_ACCEPTS = (
    "", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*",
    "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadata",
    "x", "application/json;q=x",
)  # fmt: skip
_QUERIES = (
    "", "", "", "limit=1", "limit=-1", "limit=9e9", "continue=x", "continue=eyJ2Ijoib",
    "resourceVersion=0", "resourceVersion=x", "resourceVersion=99999999999999999999999",
    "labelSelector=a%3Db", "labelSelector=a%20in%20(", "labelSelector=!", "fieldSelector=spec.x",
    "fieldSelector=metadata.name%3Da", "dryRun=All", "dryRun=x", "fieldManager=a&force=true",
    "watch=true&timeoutSeconds=1", "watch=1&resourceVersion=x", "watch=maybe",
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "resourceVersionMatch=Exact", "gracePeriodSeconds=-1", "propagationPolicy=x", "pretty=true",
    "timeoutSeconds=99999999999999999999", "includeObject=x", "%ff=%00",
)  # fmt: skip


class Api(Target):
    """`moorage.apiserver`, over a socket."""

    name = "api"

    def __init__(self) -> None:
        self._objects: list[Json] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: ApiServer | None = None
        self._requests = 0

    def prepare(self, random: Random) -> None:
        """Golden objects."""
        self._objects = golden_objects(random)

    def make(self, random: Random) -> bytes:
        """A request: method, path, headers, body."""
        obj = random.choice(self._objects)
        path = _path(obj, random)
        method = random.choice(("GET", "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD"))
        kind = random.choice(_TYPES)
        body = encode(self._patch(obj, random) if "json-patch" in kind else self._body(obj, random))
        if random.random() < 0.2:
            body = mutate_bytes(body, random)
        if random.random() < 0.05:
            path = mutate_bytes(path.encode(), random).decode(errors="replace")
        return json.dumps(
            {
                "method": method,
                "path": path[:3000],
                "type": kind,
                "accept": random.choice(_ACCEPTS),
                "body": body.decode("latin-1") if random.random() < 0.9 else "",
            }
        ).encode()

    def _body(self, obj: Json, random: Random) -> Any:
        return mutate_json(obj, random, self._objects) if random.random() < 0.85 else obj

    def _patch(self, obj: Json, random: Random) -> Any:
        paths = ["", "/", "/metadata/labels", "/metadata/labels/a~1b", "/spec/containers/0", "/x/-"]
        patch = [
            {
                "op": random.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
                "path": random.choice(paths),
                "from": random.choice(paths),
                "value": hostile(random),
            }
            for _ in range(random.choice((1, 2, 5)))
        ]
        return mutate_json(patch, random) if random.random() < 0.4 else patch

    def check(self, data: bytes) -> None:
        """An answer below 500, and the server answers the next one too."""
        asked = loaded(data)
        if not isinstance(asked, dict) or not all(isinstance(v, str) for v in asked.values()):
            return
        if self._requests >= _REQUESTS_PER_SERVER:
            self.reset()
        self._requests += 1
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._run(asked))

    async def _run(self, asked: dict[str, str]) -> None:
        if self._server is None:
            self._server = ApiServer(seed=1)
            await self._server.start()
        host, port = self._server.url.removeprefix("http://").split(":")
        async with asyncio.timeout(_SECONDS):
            status, text = await _asked(host, int(port), _request(asked))
            # 504 is upstream's answer to a resource version that is yet to come, and 500 that to
            # an applied configuration with fields or types that its kind does not have.
            untyped = status == 500 and b"failed to create typed patch object" in text
            if status >= 500 and status != 504 and not untyped:
                raise PropertyError(f"the answer was {status}: {_error_kind(text)}")
            good = {"method": "GET", "path": "/api/v1/namespaces/default"}
            status, text = await _asked(host, int(port), _request(good))
            if status not in (200, 404):  # it may have been deleted
                raise PropertyError(f"the server answers the next request with {status}")

    def reset(self) -> None:
        """The next request gets a new server."""
        if self._loop is not None and not self._loop.is_closed():
            try:
                if self._server is not None:
                    self._loop.run_until_complete(self._server.stop())
            finally:
                self._loop.close()
        self._loop = self._server = None
        self._requests = 0


def _path(obj: Json, random: Random) -> str:
    kind = str(obj.get("kind"))
    resource = RESOURCES.get(kind) or RESOURCES["Pod"]
    metadata = obj.get("metadata") or {}
    namespace = random.choice(("default", "kube-system", str(metadata.get("namespace", ""))))
    path = resource.collection(namespace if resource.namespaced else "")
    if random.random() < 0.6:
        name = str(metadata.get("name", "x"))
        path += "/" + quote(
            random.choice((name, name, name, random.choice(STRINGS)))[:300].encode(errors="replace")
        )
        if random.random() < 0.3:
            path += random.choice(
                ("/status", "/binding", "/eviction", "/scale", "/x", "/ephemeralcontainers")
            )
    query = random.choice(_QUERIES)
    return f"{path}?{query}" if query else path


def _request(asked: dict[str, str]) -> bytes:
    def clean(name: str, default: str = "") -> str:
        return "".join(c for c in asked.get(name, default) if "!" <= c <= "~" or c == " ")

    method = clean("method", "GET").replace(" ", "") or "GET"
    path = clean("path", "/").replace(" ", "%20") or "/"
    body = asked.get("body", "").encode("latin-1", errors="replace")
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close"]
    for header, name in (("Content-Type", "type"), ("Accept", "accept")):
        if clean(name):
            lines.append(f"{header}: {clean(name)}")
    lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body


def _error_kind(text: bytes) -> str:
    found = re.search(rb"Internal error occurred: (\w+)", text)
    return found[1].decode() if found else text[-80:].decode(errors="replace")


async def _asked(host: str, port: int, request: bytes) -> tuple[int, bytes]:
    """Status and body of the answer; of a watch no more than the head is read."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        line = await reader.readline()
        text = b""
        if b"watch=" not in request.split(b"\r\n", 1)[0]:
            text = await reader.read()
        parts = line.split()
        return (int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 599), text
    finally:
        writer.close()


TARGET = Api
