"""A small asynchronous client of the API server; it shares no code with Moorage on purpose."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlencode

import aiohttp

from soak.pods import Json

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
_RETRY_SECONDS = 0.25
_LONGEST_LINE = 4 * 2**20


class Api:
    """Requests to one server; those of `persistently` outlast its restart."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server

    async def call(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        """One request; its status and answer."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Content-Type": kind}
        data = None if body is None else json.dumps(body)
        url = self._server + path
        async with self._session.request(method, url, data=data, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def persistently(
        self, method: str, path: str, body: Json | None = None
    ) -> tuple[int, Json]:
        """The same, repeated until there is an answer that is no failure of the server."""
        while True:
            try:
                status, answer = await self.call(method, path, body)
            except (aiohttp.ClientError, TimeoutError, OSError):
                status, answer = 0, {}
            if status and status < 500 and status != 429:
                return status, answer
            await asyncio.sleep(_RETRY_SECONDS)

    async def changes(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        """List, then watch for ever; `SYNC` comes with each list, the other types are the API's."""
        version = ""
        while True:
            if not version:
                _, found = await self.persistently("GET", path)
                version = found["metadata"]["resourceVersion"]
                yield "SYNC", found["items"]
            query = urlencode({"watch": "1", "resourceVersion": version, "timeoutSeconds": "300"})
            try:
                async for kind, obj in self._watch(f"{path}?{query}"):
                    if kind == "ERROR":
                        version = ""
                        break
                    version = obj["metadata"]["resourceVersion"]
                    yield kind, obj
            except (aiohttp.ClientError, TimeoutError, OSError):
                version = ""
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch(self, path: str) -> AsyncIterator[tuple[str, Any]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_read=400)
        async with self._session.get(self._server + path, timeout=timeout) as answer:
            while line := await answer.content.readuntil(b"\n"):
                event = json.loads(line)
                yield event["type"], event["object"]
