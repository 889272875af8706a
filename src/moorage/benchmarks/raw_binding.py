"""How many bindings an API server takes when nobody decides anything: the ceiling for a scheduler.

Speaks plain HTTP/1.1 over connections that stay open, with requests made beforehand, so that the
client costs next to nothing. Where access needs more than a token or a certificate, the usual
client is used.
"""

import asyncio
import ssl
import time
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from moorage.benchmarks.objects import IN_FLIGHT, in_flight
from moorage.errors import UnreachableError
from moorage.kube import requests
from moorage.kube.access import Access
from moorage.kube.client import KubeClient, status_error
from moorage.kube.tls import client_context

Binding = tuple[str, str, str, str]
"""Namespace, name and uid of a pod, and the node's name."""

_HEADER_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


async def bindings_per_second(
    client: KubeClient, bindings: Sequence[Binding], limit: int = IN_FLIGHT
) -> float:
    """Bind pods as fast as the server allows."""
    asked = [requests.bind(*binding) for binding in bindings]
    access = client.access
    if not _is_simple(access):
        started = time.monotonic()
        await in_flight(asked, lambda request: _sent(client, request), limit)
        return len(asked) / (time.monotonic() - started)
    texts = [_text(access, request) for request in asked]
    opened = (_Connection.open(access) for _ in range(min(limit, len(texts))))
    connections = await asyncio.gather(*opened)
    try:
        left = iter(texts)
        started = time.monotonic()
        await asyncio.gather(*(connection.post_all(left) for connection in connections))
        return len(texts) / (time.monotonic() - started)
    finally:
        for connection in connections:
            connection.close()


async def _sent(client: KubeClient, request: requests.Request) -> None:
    await client.send(request)


def _is_simple(access: Access) -> bool:
    odd = (access.exec_plugin, access.oidc, access.proxy_url, access.token_file, access.username)
    return not any(odd) and not access.impersonate.user


def _text(access: Access, request: requests.Request) -> bytes:
    body = msgspec.json.encode(request.body)
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        f"Host: {urlsplit(access.server).netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    if access.token:
        lines.append(f"Authorization: Bearer {access.token}")
    return "\r\n".join(lines).encode() + _HEADER_END + body


class _Connection:
    """One connection that asks one thing after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, access: Access) -> "_Connection":
        address = urlsplit(access.server)
        context: ssl.SSLContext | None = None
        if address.scheme == "https":
            context = client_context(
                access.ca, access.client_certificate, access.client_key, insecure=access.insecure
            )
        port = address.port or (443 if context else 80)
        host = address.hostname or ""
        name = (access.tls_server_name or host) if context else None
        try:
            opened = await asyncio.open_connection(host, port, ssl=context, server_hostname=name)
        except OSError as error:
            text = f"the API server {access.address} cannot be reached: {error.strerror or error}"
            raise UnreachableError(text, maybe_applied=False) from error
        return cls(*opened)

    async def post_all(self, texts: Iterator[bytes]) -> None:
        """Take one request after another from what is left."""
        for text in texts:
            self._writer.write(text)
            try:
                header = await self._reader.readuntil(_HEADER_END)
                body = await self._reader.readexactly(_length(header))
            except (OSError, asyncio.IncompleteReadError) as error:
                why = f"the API server broke the connection: {error}"
                raise UnreachableError(why, maybe_applied=True) from error
            code = int(header.split(b" ", 2)[1])
            if code >= 300:
                raise status_error(body, code=code, otherwise=f"a binding was answered {code}")

    def close(self) -> None:
        self._writer.close()


def _length(header: bytes) -> int:
    for line in header.lower().split(b"\r\n"):
        if line.startswith(_LENGTH):
            return int(line[len(_LENGTH) :])
    return 0
