"""`ApiServer`: the parts put together, started and stopped; `run_apiserver`: that as a program.

Callers (commands, tests) use only what `moorage.apiserver` exports. Must not hold rules about
objects.
"""

import asyncio
import base64
import logging
import random
import signal
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from aiohttp import web

from moorage.apiserver.authentication import ApiUser, Authentication, read_token_file
from moorage.apiserver.browsers import is_loopback
from moorage.apiserver.certificates import Tls, kept_certificate, new_certificate, tls_context
from moorage.apiserver.deletion import EventExpiry
from moorage.apiserver.errors import MAX_BODY_BYTES, Json
from moorage.apiserver.faults import Faults
from moorage.apiserver.handlers import Handlers
from moorage.apiserver.journal import Journal
from moorage.apiserver.listing import Lists
from moorage.apiserver.metadata import Clock, Identities
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.storage import DEFAULT_HISTORY_BYTES, DEFAULT_HISTORY_CHANGES, Storage
from moorage.apiserver.verbs import Verbs
from moorage.apiserver.watching import BOOKMARK_SECONDS, Watches
from moorage.connections.descriptors import raise_limit
from moorage.connections.limits import LOCAL
from moorage.connections.memory import give_back_freed_memory
from moorage.connections.server import HttpServer, ProtocolLog
from moorage.errors import InputError
from moorage.model.workloads import SYSTEM_PRIORITIES
from moorage.private_files import write_privately

_log = logging.getLogger(__name__)
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_ADDRESS = "10.96.0.1"
_SERVICE = {
    "metadata": {
        "name": "kubernetes",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": _ADDRESS,
        "clusterIPs": [_ADDRESS],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}
"""How pods would reach the API server."""
_SHUTDOWN_SECONDS = 2.0
_BACKLOG = 1024
_NAME = "moorage"
_NO_TOKEN = "anonymous"


class ApiServer:
    """An API server in this process.

    `verbs` and `operations` are the same way in that HTTP requests take; `faults` makes it fail on
    purpose.
    """

    def __init__(
        self,
        *,
        data: Path | None = None,
        tokens: dict[str, ApiUser] | None = None,
        clock: Clock = time.time,
        seed: int | None = None,
        history_changes: int = DEFAULT_HISTORY_CHANGES,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        generator = random.Random(seed)
        self.store = Storage(history_changes=history_changes, history_bytes=history_bytes)
        self.operations = Operations(self.store, Identities(clock, generator))
        self.watches = Watches(self.store, bookmark_seconds)
        self.faults = Faults(generator, self.watches.cut, self._compact)
        self._lists = Lists(self.store, clock)
        self._authentication = Authentication(tokens)
        self.verbs = Verbs(self.operations, self._lists, self._authentication)
        self._handlers = Handlers(
            self.store, self.verbs, self.watches, self._authentication, self.faults
        )
        self._expiry = EventExpiry(self.store, clock)
        self._background: list[asyncio.Task[None]] = []
        self._data = data
        self._journal = None if data is None else Journal(data)
        self._server: HttpServer | None = None
        self._authority = b""
        self.url = ""

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, tls: Tls | bool | None = None
    ) -> None:
        """Read what is kept, listen, and answer; port 0 picks a free one."""
        if self._journal is not None:
            try:
                self._journal.load(self.store)
            except OSError as error:
                raise InputError(
                    f"the data directory {self._data} cannot be used: {_reason(error)}"
                ) from error
            self.store.attach(self._journal)
        self._bootstrap()
        try:
            context = self._secure(host, tls)
        except (OSError, ValueError) as error:  # what the ssl module raises is an OSError
            raise InputError(
                f"the TLS certificate or its key cannot be used: {_reason(error)}"
            ) from error
        open_to_all = context is None and not self._authentication.required
        self._handlers.is_local = open_to_all and is_loopback(host)
        server = web.Server(
            self._answer,
            request_factory=_make_request,
            # An idle watch would otherwise not notice that its client has gone.
            handler_cancellation=True,
            access_log=None,
            logger=ProtocolLog(_log, {}),
            keepalive_timeout=LOCAL.idle_seconds,
            # As upstream; and a small body cannot be unpacked to a large one.
            auto_decompress=False,
        )
        try:
            listeners = await _listen(host, port)
        except (OSError, UnicodeError) as error:
            raise InputError(f"cannot listen on {host}:{port}: {_reason(error)}") from error
        self._server = HttpServer(web.ServerRunner(server), LOCAL)
        await self._server.start(listeners, context)
        bound = listeners[0].getsockname()[1]
        self.url = f"{'http' if context is None else 'https'}://{host}:{bound}"
        self._background = [
            asyncio.create_task(self._expiry.run(), name="event expiry"),
            asyncio.create_task(give_back_freed_memory(), name="giving back memory"),
        ]

    async def stop(self) -> None:
        """End watches in good order, stop listening, and close the journal."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self.watches.stop()
        if self._server is not None:
            await self._server.stop(_SHUTDOWN_SECONDS)
            self._server = None
        if self._journal is not None:
            await self._journal.stop()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._server is not None
        with self._server.answering(request):
            return await self._handlers.handle(request)

    def kubeconfig(self) -> Json:
        """How to reach this server, as a kubeconfig."""
        cluster: Json = {"server": self.url}
        if self._authority:
            cluster["certificate-authority-data"] = base64.b64encode(self._authority).decode()
        # Over TLS kubectl asks for a password where a kubeconfig holds no credentials at all.
        token = self._authentication.first_token() or _NO_TOKEN
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": _NAME,
            "clusters": [{"name": _NAME, "cluster": cluster}],
            "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
            "users": [{"name": _NAME, "user": {"token": token}}],
        }

    def write_kubeconfig(self, path: Path) -> None:
        """Write the kubeconfig, readable by its owner alone since it may hold a token."""
        text = yaml.safe_dump(self.kubeconfig(), sort_keys=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_privately(path, text.encode())
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from error

    def _secure(self, host: str, tls: Tls | bool | None) -> ssl.SSLContext | None:
        if not tls:
            return None
        if isinstance(tls, Tls):
            files = tls
        elif self._data is not None:
            files = kept_certificate(self._data, host)
        else:
            files = new_certificate(host)
        self._authority = files.authority
        return tls_context(files)

    def _bootstrap(self) -> None:
        """What every cluster has from the beginning."""
        namespaces = BY_PLURAL["", "v1", "namespaces"]
        services = BY_PLURAL["", "v1", "services"]
        classes = BY_PLURAL["scheduling.k8s.io", "v1", "priorityclasses"]
        for name in _NAMESPACES:
            if self.store.namespaces.get("", name) is None:
                self.operations.create(namespaces, "", {"metadata": {"name": name}})
        if self.store.collection(services.storage).get("default", "kubernetes") is None:
            self.operations.create(services, "default", deepcopy(_SERVICE))
        for name, value in SYSTEM_PRIORITIES.items():
            if self.store.collection(classes.storage).get("", name) is None:
                obj = {"metadata": {"name": name}, "value": value}
                self.operations.create(classes, "", obj)

    def _compact(self) -> None:
        self._lists.expire_pages()
        for collection in self.store.collections.values():
            collection.history.compact(self.store.version)


async def _listen(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host, as a name may have several."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            listener = socket.create_server(address, family=family, backlog=_BACKLOG)
            listener.setblocking(False)
            made.append(listener)
    except BaseException:
        for listener in made:
            listener.close()
        raise
    return made


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: Any
) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES
    )


class ApiServerOptions(NamedTuple):
    """What a command line can say."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    token_file: Path | None = None
    data: Path | None = None
    write_kubeconfig: Path | None = None
    seed: int | None = None


Started = Callable[[ApiServer], None]
Beside = Callable[[ApiServer], Coroutine[Any, Any, None]]


def make_server(options: ApiServerOptions) -> ApiServer:
    """A server that is not started yet; raises `InputError` on options that make no sense."""
    tokens = read_token_file(options.token_file) if options.token_file is not None else {}
    if not tokens and not is_loopback(options.host):
        raise InputError(
            f"{options.host} is not a loopback address: without a token file anybody who can "
            "reach the server could do everything"
        )
    return ApiServer(data=options.data, tokens=tokens, seed=options.seed)


def run_apiserver(
    options: ApiServerOptions, started: Started | None = None, beside: Beside | None = None
) -> int:
    """Serve until SIGINT or SIGTERM; `started` is called once the server answers.

    `beside` runs from then on, until the server ends.
    """
    raise_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options, started, beside))
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop's loop where it is installed: it halves the cost of a request."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(options: ApiServerOptions, started: Started | None, beside: Beside | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = make_server(options)
    try:
        await server.start(options.host, options.port, _tls(options))
        if options.write_kubeconfig is not None:
            server.write_kubeconfig(options.write_kubeconfig)
        if started is not None:
            started(server)
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(stop.wait())]
        if beside is not None:
            tasks.append(asyncio.create_task(beside(server)))
        ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for task in ended:
            task.result()
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
