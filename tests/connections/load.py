"""A client process that opens many connections; run by tests as a program of its own.

    load.py PORT COUNT closed|idle|garbage plain|tls

`closed` opens connections and closes them at once, `garbage` sends what is no handshake, and `idle`
holds them, after the handshake where there is TLS. It prints a line when all are open and ends when
its standard input does.
"""

import asyncio
import contextlib
import resource
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_AT_ONCE = 50
_SECONDS = 30.0


async def _open(
    port: int, kind: str, context: ssl.SSLContext | None
) -> asyncio.StreamWriter | None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_SECONDS):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            if kind == "idle":
                return writer
            if kind == "garbage":
                writer.write(b"\x16\x03\x01" + bytes(200))
                await writer.drain()
            writer.transport.abort()
    return None


async def _load(port: int, count: int, kind: str, context: ssl.SSLContext | None) -> None:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one() -> asyncio.StreamWriter | None:
        async with slots:
            return await _open(port, kind, context)

    held = await asyncio.gather(*(one() for _ in range(count)))
    sys.stdout.write(f"{sum(writer is not None for writer in held)}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    for writer in held:
        if writer is not None:
            writer.transport.abort()


@contextmanager
def running_load(port: int, count: int, kind: str, security: str) -> Iterator[None]:
    """While a process of its own has made, or holds, so many connections."""
    command = [sys.executable, __file__, str(port), str(count), kind, security]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline()
        yield
        child.stdin.close()
        assert child.wait(30) == 0


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, count, kind, security = sys.argv[1:]
    asyncio.run(_load(int(port), int(count), kind, client_context() if security == "tls" else None))
