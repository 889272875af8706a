"""`run_apiserver`: the server as a program, from options to the signal that ends it."""

import asyncio
import ipaddress
import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from moorage.apiserver.authentication import read_token_file
from moorage.apiserver.certificates import Tls
from moorage.apiserver.kubelets import KubeletOptions
from moorage.apiserver.server import ApiServer
from moorage.connections.descriptors import raise_limit
from moorage.errors import InputError


class ApiServerOptions(NamedTuple):
    """What a command line can say."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    token_file: Path | None = None
    data: Path | None = None
    kubelets: KubeletOptions | None = None
    write_kubeconfig: Path | None = None
    seed: int | None = None


Started = Callable[[ApiServer], None]


def make_server(options: ApiServerOptions) -> ApiServer:
    """A server that is not started yet; raises `InputError` on options that make no sense."""
    tokens = read_token_file(options.token_file) if options.token_file is not None else {}
    if not tokens and not _loopback(options.host):
        raise InputError(
            f"{options.host} is not a loopback address: without a token file anybody who can "
            "reach the server could do everything"
        )
    return ApiServer(data=options.data, tokens=tokens, kubelets=options.kubelets, seed=options.seed)


async def start_server(options: ApiServerOptions) -> ApiServer:
    """Start a server and write its kubeconfig."""
    server = make_server(options)
    try:
        await server.start(options.host, options.port, _tls(options))
        if options.write_kubeconfig is not None:
            server.write_kubeconfig(options.write_kubeconfig)
    except BaseException:
        await server.stop()
        raise
    return server


def run_apiserver(options: ApiServerOptions, started: Started | None = None) -> int:
    """Serve until SIGINT or SIGTERM; `started` is called once the server answers."""
    raise_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options, started))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's loop where it is installed: it halves the cost of a request."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(options: ApiServerOptions, started: Started | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = await start_server(options)
    try:
        if started is not None:
            started(server)
        await stop.wait()
    finally:
        await server.stop()


def _tls(options: ApiServerOptions) -> Tls | bool:
    if options.tls_certificate is None or options.tls_key is None:
        if options.tls_certificate is not options.tls_key:
            raise InputError("a TLS certificate and its key are needed together")
        return options.tls
    try:
        certificate = options.tls_certificate.read_bytes()
        return Tls(certificate, options.tls_key.read_bytes(), certificate)
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}") from None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
