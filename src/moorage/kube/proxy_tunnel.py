"""A socket that leads to a server through a proxy.

The proxy of a server without TLS is asked for whole URLs. For others it is asked for a tunnel, and
TLS is spoken through that as if it were the server's own socket.
"""

import asyncio
import socket
import ssl
from urllib.parse import unquote, urlsplit

import msgspec

from moorage.errors import ConnectError
from moorage.kube.credentials import Headers, basic_authorization
from moorage.kube.http_wire import AnswerReader, fixed_head, request_bytes

Address = tuple[str, int]
_RECEIVE_BYTES = 4096


class Proxy(msgspec.Struct, frozen=True):
    """One proxy; `headers` say who asks it."""

    address: Address
    secure: bool
    headers: Headers = ()


def proxy_at(url: str) -> Proxy:
    """The proxy at a URL (of `proxies.usable_proxy`)."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    headers: Headers = ()
    if parts.username is not None:
        who = basic_authorization(unquote(parts.username), unquote(parts.password or ""))
        headers = (("Proxy-Authorization", who),)
    return Proxy((parts.hostname or "", parts.port or (443 if secure else 80)), secure, headers)


def tunnel_request(proxy: Proxy, target: Address) -> bytes:
    """What a proxy is asked for a tunnel."""
    host, port = target
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return request_bytes("CONNECT", where, fixed_head(where, proxy.headers), None, "")


async def through(sock: socket.socket, proxy: Proxy, target: Address | None) -> socket.socket:
    """What leads on from a connection to a proxy; with a `target` through a tunnel to it."""
    try:
        if proxy.secure:
            sock = await _in_the_clear(sock, proxy)
        if target is not None:
            await _begin_tunnel(sock, proxy, target)
    except BaseException:
        sock.close()
        raise
    return sock


async def _begin_tunnel(sock: socket.socket, proxy: Proxy, target: Address) -> None:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, tunnel_request(proxy, target))
    answer = AnswerReader()
    # Nothing follows the answer's head: TLS begins with us.
    while not answer.status:
        data = await loop.sock_recv(sock, _RECEIVE_BYTES)
        if not data:
            raise ConnectError("the proxy closed the connection")
        answer.feed(data)
    if answer.status != 200:
        raise ConnectError(f"the proxy answered {answer.status} {answer.reason}")


async def _in_the_clear(sock: socket.socket, proxy: Proxy) -> socket.socket:
    """A socket to whose other end TLS with the proxy is added: one socket cannot carry it twice."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    ours, theirs = _End(), _End()
    try:
        context = ssl.create_default_context()
        name = proxy.address[0]
        theirs.other, _ = await loop.create_connection(lambda: ours, sock=far)
        ours.other, _ = await loop.create_connection(
            lambda: theirs, sock=sock, ssl=context, server_hostname=name
        )
    except BaseException:
        near.close()
        raise
    near.setblocking(False)
    return near


class _End(asyncio.Protocol):
    """Passes on what arrives here to the other end."""

    other: asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        other = getattr(self, "other", None)
        if other is None:
            return  # before there was one
        if other.get_extra_info("sslcontext") is None:
            other.close()
        else:
            other.abort()  # nobody is left who would wait for TLS to end in good order

    def pause_writing(self) -> None:
        self.other.pause_reading()

    def resume_writing(self) -> None:
        self.other.resume_reading()
