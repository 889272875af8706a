"""An API server that only shows a large cluster: lists in pages, watches without news.

It is a program of its own, and its objects are texts made once, so that what is measured is whoever
reads them.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs

from e2e.client import Json
from moorage.controlplane.processes import ChildProcess, wait_until_ready

WAITING = "team-0/waiting"
"""A pod that needs more than any node has left."""

_PODS = "/api/v1/pods"
_LISTENING = re.compile(r"listening at (\S+)")


def _meta(name: str, labels: Json) -> Json:
    managed = {"manager": "kubelet", "operation": "Update", "fieldsType": "FieldsV1"}
    fields: Json = {f"f:field-{number}": {"f:name": {}, "f:value": {}} for number in range(20)}
    return {
        "name": name,
        "uid": name,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
        "managedFields": [{**managed, "fieldsV1": fields}],
    }


def _conditions(*names: str) -> list[Json]:
    times = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return [{"type": name, "status": "True", **times} for name in names]


def _node(taints: list[Json]) -> str:
    """The text of a node, with @n@ for its number and @zone@ for its zone."""
    labels = {
        "kubernetes.io/hostname": "node-@n@",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": "zone-@zone@",
    }
    images = [
        {
            "names": [f"registry.example/app-{n}@sha256:{n:064x}", f"registry.example/app-{n}:v1"],
            "sizeBytes": 10**7 + n,
        }
        for n in range(15)
    ]
    amounts = {"cpu": "15", "memory": "60Gi", "pods": "110", "ephemeral-storage": "90Gi"}
    status = {"allocatable": amounts, "capacity": amounts, "images": images}
    body = {"metadata": _meta("node-@n@", labels), "spec": {"taints": taints}}
    return json.dumps({**body, "status": {**status, "conditions": _conditions("Ready")}})


def _pod(name: str, namespace: str, cpu: str, **spec: object) -> str:
    """The text of a pod, with @app@ for its application and @n@ for its number."""
    container = {
        "name": "main",
        "image": "registry.example/app-1:v1",
        "env": [{"name": f"E{number}", "value": "x" * 20} for number in range(5)],
        "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}},
    }
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "app-@app@", "uid": "@app@"}
    spec |= {"schedulerName": "default-scheduler", "containers": [container]}
    body = {
        "metadata": {
            **_meta(name, {"app": "app-@app@", "tier": "web"}),
            "namespace": namespace,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": spec,
        "status": {"conditions": _conditions("Initialized", "Ready", "PodScheduled")},
    }
    return json.dumps(body)


def _lists(nodes: int, pods: int) -> dict[str, list[str]]:
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    plain, tainted = _node([]), _node([taint])
    placed = _pod("app-@app@-@n@", "team-@team@", "500m", nodeName="node-@node@")
    namespace, _, name = WAITING.partition("/")
    return {
        "/api/v1/nodes": [
            (plain if n % 20 else tainted).replace("@n@", f"{n:05}").replace("@zone@", str(n % 10))
            for n in range(nodes)
        ],
        _PODS: [
            placed.replace("@app@", str(n % 2000))
            .replace("@n@", str(n))
            .replace("@team@", str(n % 100))
            .replace("@node@", f"{n % nodes:05}")
            for n in range(pods)
        ]
        + [_pod(name, namespace, "11")],
    }


class _Server:
    def __init__(self, lists: dict[str, list[str]]) -> None:
        self._lists = lists

    async def run(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sys.stdout.write(f"listening at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await server.serve_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                method, _, rest = head.partition(" ")
                path, _, query = rest.partition(" ")[0].partition("?")
                length = head.partition("\r\ncontent-length:")[2].partition("\r\n")[0]
                if length:
                    await reader.readexactly(int(length))
                asked = {name: values[0] for name, values in parse_qs(query).items()}
                if "watch" in asked and "sendinitialevents" not in asked:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                    await reader.read()  # until whoever watches has had enough
                    break
                code, text = self._answer(method, path, asked)
                body = text.encode()
                writer.write(
                    f"HTTP/1.1 {code.value} {code.phrase}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                )
                writer.write(body)
                await writer.drain()
        writer.close()

    def _answer(self, method: str, path: str, asked: dict[str, str]) -> tuple[HTTPStatus, str]:
        if method != "get":
            return HTTPStatus.CREATED, "{}"
        if "watch" in asked:  # with initial events, which it does not offer
            return HTTPStatus.UNPROCESSABLE_ENTITY, '{"kind":"Status","message":"no"}'
        items = self._lists.get(path, [])
        if path.startswith("/api/v1/namespaces/"):
            items = self._lists[_PODS][-1:]
        start = int(asked.get("continue", 0))
        end = start + int(asked.get("limit", 0)) or len(items)
        more = {"continue": str(end)} if end < len(items) else {}
        meta = json.dumps({"resourceVersion": "9", **more})
        return HTTPStatus.OK, f'{{"metadata":{meta},"items":[{",".join(items[start:end])}]}}'


@contextmanager
def big_cluster(nodes: int, pods: int, folder: Path) -> Iterator[str]:
    """A running server; its URL."""
    log = folder / "big-cluster.log"
    path = os.pathsep.join(filter(None, (str(Path(__file__).parents[1]), *sys.path)))
    command = [sys.executable, "-m", __name__, str(nodes), str(pods)]
    process = ChildProcess("the server", command, log, os.environ | {"PYTHONPATH": path})
    try:
        wait_until_ready(process, lambda: bool(_LISTENING.search(log.read_text())), 120)
        found = _LISTENING.search(log.read_text())
        assert found is not None
        yield found[1]
    finally:
        process.kill()


if __name__ == "__main__":
    asyncio.run(_Server(_lists(int(sys.argv[1]), int(sys.argv[2]))).run())
