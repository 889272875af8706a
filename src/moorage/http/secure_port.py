"""The secure port: HTTPS with delegated authentication and authorisation, from opening to closing.

Making a `SecurePort` opens it. Where flags name files or clusters, all of them are read at once, in
upstream's order, so that the first thing wrong is the one that upstream would name. Where they do
not, nothing can be wrong: the port listens, and the libraries and the key wait for the first
client, which halves the processor time of a start. That is why this module imports them late.
"""

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from moorage.errors import InputError, MoorageError
from moorage.http.endpoints import SILENT, Endpoints, PortObserver
from moorage.http.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.kube.access_discovery import SERVICE_ACCOUNT
from moorage.log_fields import V

if TYPE_CHECKING:
    from aiohttp import web

    from moorage.connections.server import HttpServer
    from moorage.http.certificates import Bundle
    from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
    from moorage.http.tls import ServingTls

log = logging.getLogger(__name__)

GRACE = 5.0
RELOAD_PERIOD = 5.0
"""How often certificate files are checked for having been replaced."""
_BACKLOG = 4096
_LIBRARIES = ("moorage.http.application", "moorage.http.delegation", "moorage.http.tls")


class SecurePort:
    """HTTPS on one port. `start` serves; `stop` ends it."""

    def __init__(
        self,
        serving: ServingOptions,
        authentication: AuthenticationOptions = AuthenticationOptions(),  # noqa: B008 - frozen
        authorization: AuthorizationOptions = AuthorizationOptions(),  # noqa: B008
        *,
        observer: PortObserver = SILENT,
        env: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        self._serving = serving
        self._authentication_options = authentication
        self._authorization_options = authorization
        self._observer = observer
        self._env = env
        self._service_account = service_account
        self._listener: socket.socket | None = None
        self._tls: ServingTls | None = None
        self.authentication: DelegatedAuthentication | None = None
        self._authorization: DelegatedAuthorization | None = None
        self._server: HttpServer | None = None
        self._bundles: Sequence[Bundle] = ()
        self._tasks: list[asyncio.Task[None]] = []
        self.failure: MoorageError | None = None
        """Why it is not served, if that turned out with the first client."""
        if can_wait(serving, authentication, authorization, env):
            self._listener = open_listener(serving)
        else:
            self._load()

    @property
    def port(self) -> int:
        assert self._listener is not None, "opened when it was made"
        found: int = self._listener.getsockname()[1]
        return found

    async def start(
        self, endpoints: Callable[[], Endpoints], on_failure: Callable[[], None]
    ) -> None:
        """Serve, or be ready to; `InputError` if the cluster does not say whom to trust.

        `on_failure` is called if it turns out later that nothing can be served.
        """
        assert self._listener is not None, "opened when it was made"
        if self.authentication is not None:
            await self.authentication.start()
            await self._serve_endpoints(endpoints())
        else:
            loop, listener = asyncio.get_running_loop(), self._listener

            def first_client() -> None:
                # Clients that come meanwhile wait in the socket's queue.
                loop.remove_reader(listener.fileno())
                work = self._load_and_serve(endpoints, on_failure)
                self._tasks.append(asyncio.create_task(work, name="secure port"))

            loop.add_reader(listener.fileno(), first_client)
        log.info("Serving securely on %s", joined(*self._listener.getsockname()[:2]))

    async def serve(self, app: "web.Application", bundles: "Sequence[Bundle]" = ()) -> None:
        """Serve an application; clients may show certificates of the authorities in `bundles`."""
        from moorage.connections.server import app_server

        if self._tls is None:
            self._load()
        assert self._tls is not None
        assert self._listener is not None
        self._bundles = bundles
        server = app_server(app, self._serving.connections, log)
        await server.start([self._listener], self._tls.renewed(bundles))
        self._server = server
        self._tasks.append(asyncio.create_task(self._poll(), name="serving certificates"))

    def reload(self) -> bool:
        """Read certificates and authorities again; True if new ones are served from now on."""
        assert self._tls is not None, "start it first"
        assert self._server is not None, "start it first"
        context = self._tls.renewed(self._bundles)
        if context is not None:
            self._server.use(context)
        return context is not None

    def abandon(self) -> None:
        """Give the port back without ever having served."""
        if self._listener is not None:
            self._listener.close()

    async def stop(self, grace: float = GRACE) -> None:
        """Accept no more, let requests end within the grace, close everything."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._server is not None:
            log.info("[graceful-termination] secure server has stopped listening")
            await self._server.stop(grace)
            log.info("[graceful-termination] secure server is exiting")
            self._server = None
        elif self._listener is not None and self._listener.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self.abandon()
        if self.authentication is not None:
            await self.authentication.close()
        if self._authorization is not None:
            await self._authorization.close()

    def _load(self) -> None:
        """Read everything that the flags name; the port is given back if something is wrong."""
        from moorage.http.delegation import DelegatedAuthentication, DelegatedAuthorization
        from moorage.http.tls import ServingTls

        try:
            tls = ServingTls(self._serving)
            self._listener = self._listener or open_listener(self._serving)
            tls.load()
            authentication = DelegatedAuthentication(
                self._authentication_options,
                observer=self._observer,
                env=self._env,
                service_account=self._service_account,
            )
            self._authorization = DelegatedAuthorization(
                self._authorization_options,
                observer=self._observer,
                env=self._env,
                service_account=self._service_account,
            )
        except BaseException:
            self.abandon()
            raise
        self._tls, self.authentication = tls, authentication

    async def _load_and_serve(
        self, endpoints: Callable[[], Endpoints], on_failure: Callable[[], None]
    ) -> None:
        try:
            # Loading takes a while, in which pods go on being scheduled.
            for library in _LIBRARIES:
                await asyncio.to_thread(import_module, library)
            self._load()
            await self._serve_endpoints(endpoints())
        except Exception as error:
            # A process that nobody can ask about its health must not be left running.
            reason = str(error)
            if not isinstance(error, MoorageError):
                log.exception("The secure port cannot be served")
                reason = f"{type(error).__name__}: {error}"
            self.failure = MoorageError(f"the secure port cannot be served: {reason}")
            on_failure()

    async def _serve_endpoints(self, endpoints: Endpoints) -> None:
        from moorage.http.application import build_application

        assert self.authentication is not None
        assert self._authorization is not None
        authenticator, authorizer = (
            self.authentication.authenticator,
            self._authorization.authorizer,
        )
        app = build_application(endpoints, authenticator, authorizer, self._observer)
        await self.serve(app, authenticator.bundles)

    async def _poll(self) -> None:
        assert self.authentication is not None
        changed = self.authentication.changed
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELOAD_PERIOD):
                    await changed.wait()
            changed.clear()
            try:
                if self.reload():
                    log.log(V(2), "Loaded new serving certificates or client CAs")
            except (InputError, ssl.SSLError, OSError) as error:
                # What was good enough until now is still better than nothing.
                log.error("DynamicCertificates failed with : %s", error)

    async def __aenter__(self) -> "SecurePort":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def can_wait(
    serving: ServingOptions,
    authentication: AuthenticationOptions,
    authorization: AuthorizationOptions,
    env: Mapping[str, str],
) -> bool:
    """Is there nothing that a look at the flags' files or at a cluster could find wrong?"""
    plain = ServingOptions(
        bind_address=serving.bind_address,
        secure_port=serving.secure_port,
        permit_port_sharing=serving.permit_port_sharing,
        permit_address_sharing=serving.permit_address_sharing,
        connections=serving.connections,
    )
    asks_a_cluster = (
        authentication.kubeconfig or authorization.kubeconfig or "KUBERNETES_SERVICE_HOST" in env
    )
    reads_files = authentication.client_ca_file or authentication.request_header.client_ca_file
    return serving == plain and not asks_a_cluster and not reads_files


def open_listener(options: ServingOptions) -> socket.socket:
    """Listen on the address and port of the options; `InputError` as upstream puts it."""
    try:
        address = ipaddress.ip_address(options.bind_address or "0.0.0.0")
    except ValueError:
        raise InputError(f'--bind-address: "{options.bind_address}" is not an IP address') from None
    shown = joined(str(address), options.secure_port)
    family = _family(address)
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _refused(shown, "socket", error) from None
    try:
        # Set in any case, as by Go; --permit-address-sharing therefore changes nothing on Linux.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        host = str(address)
        if family == socket.AF_INET6:
            both = address.is_unspecified
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
            host = "::" if both else host
        made.setblocking(False)
        made.bind((host, options.secure_port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise _refused(shown, "bind", error) from None
    return made


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> socket.AddressFamily:
    """An unspecified address, of whichever family, means all interfaces of both families."""
    if address.version == 4 and not (address.is_unspecified and _dual_stack()):
        return socket.AF_INET
    return socket.AF_INET6


def _dual_stack() -> bool:
    if not socket.has_dualstack_ipv6():
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def joined(host: str, port: int) -> str:
    """Host and port as one text, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(shown: str, call: str, error: OSError) -> InputError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return InputError(
        f"failed to create listener: failed to listen on {shown}:"
        f" listen tcp {shown}: {call}: {reason}"
    )
