"""The port's pages behind its guards: who asks, may they, and what is answered when all goes wrong.

Owns the order of the guards and the choice of a handler by path. Pages themselves are in the other
modules; whom to believe is decided by `authentication` and `authorization`.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Sequence
from contextvars import ContextVar

from aiohttp import web
from cryptography import x509

from moorage.config.duration import Duration
from moorage.config.field_errors import quoted
from moorage.http.answers import NO_SNIFF, error_text, failure
from moorage.http.authentication import (
    Authenticator,
    Credentials,
    UnauthenticatedError,
    User,
    readable,
)
from moorage.http.authorization import AuthorizationFailedError, Authorizer
from moorage.http.certificates import ClientCertificate
from moorage.http.endpoints import SILENT, Endpoints, Handler, Observer
from moorage.http.listener import joined
from moorage.http.pages import (
    configz,
    flags_index,
    flagz,
    health_routes,
    metric_routes,
    set_verbosity,
    statusz,
)
from moorage.http.profiling import profiling_routes
from moorage.log_fields import V, fields

log = logging.getLogger(__name__)

MAX_BODY = 1 << 16
_USER: ContextVar[User | None] = ContextVar("user", default=None)
"""Set anew for every request: one task serves all requests of a connection."""
_CACHE_CONTROL = {"Cache-Control": "no-cache, private"}


class Paths:
    """Which handler a path leads to: the path itself, else the longest prefix."""

    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._prefixes: dict[str, Handler] = {}
        self.listed: list[str] = []

    def add(self, routes: dict[str, Handler], *, listed: bool = True) -> None:
        """Handlers by path; `listed` ones are named by /statusz."""
        self._exact |= routes
        if listed:
            self.listed.extend(routes)

    def add_prefixes(self, routes: dict[str, Handler]) -> None:
        """Handlers for everything that begins so."""
        self._prefixes |= routes

    def find(self, path: str) -> tuple[str, Handler] | None:
        """The known path and its handler."""
        handler = self._exact.get(path)
        if handler is not None:
            return path, handler
        prefixes = [prefix for prefix in self._prefixes if path.startswith(prefix)]
        if not prefixes:
            return None
        longest = max(prefixes, key=len)
        return longest, self._prefixes[longest]


def build_application(
    endpoints: Endpoints,
    authenticator: Authenticator | None,
    authorizer: Authorizer | None,
    observer: Observer = SILENT,
) -> web.Application:
    """All pages; without an authenticator or authorizer everybody may see them."""
    paths = _paths(endpoints, observer)

    async def dispatch(request: web.Request) -> web.StreamResponse:
        found = paths.find(request.path)
        if found is None:
            return error_text("404 page not found", 404)
        return await found[1](request)

    guards = _Guards(authenticator, authorizer, observer, paths)
    app = web.Application(
        middlewares=[guards.answered, guards.recorded, guards.authenticated, guards.authorized],
        client_max_size=MAX_BODY,
    )
    app.router.add_route("*", "/{path:.*}", dispatch)
    app.on_response_prepare.append(_no_caching)
    return app


def current_user() -> User | None:
    """Who asks, for handlers of extra routes; None where nobody is asked who they are."""
    return _USER.get()


def _paths(endpoints: Endpoints, observer: Observer) -> Paths:
    paths = Paths()
    paths.add(health_routes("healthz", endpoints.healthz, observer))
    paths.add(health_routes("livez", endpoints.livez, observer))
    paths.add(health_routes("readyz", endpoints.readyz, observer))
    paths.add({"/configz": configz(endpoints.configz)})
    paths.add(metric_routes(endpoints))
    if endpoints.profiling:
        exact, below = profiling_routes()
        paths.add(exact, listed=False)
        paths.add_prefixes(below | {"/debug/flags/": flags_index})
        flags = {
            "/debug/flags": flags_index,
            "/debug/flags/v": set_verbosity(endpoints.set_verbosity),
        }
        paths.add(flags, listed=False)
    for route in endpoints.extra:
        paths.add({route.path: route.handler}, listed=route.listed)
        if route.prefix:
            paths.add_prefixes({route.path.rstrip("/") + "/": route.handler})
    if endpoints.flags is not None:
        paths.add({"/flagz": flagz(endpoints.component, endpoints.flags)})
    if endpoints.statusz is not None:
        page = statusz(endpoints.component, endpoints.statusz, paths.listed)
        paths.add({"/statusz": page})
    return paths


async def _no_caching(_: web.Request, answer: web.StreamResponse) -> None:
    if "Cache-Control" not in answer.headers:
        answer.headers.update(_CACHE_CONTROL)
    answer.headers.popall("Server", None)  # nobody needs to know what we are made of


class _Guards:
    """The middlewares, from the outermost to the innermost."""

    def __init__(
        self,
        authenticator: Authenticator | None,
        authorizer: Authorizer | None,
        observer: Observer,
        paths: Paths,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._observer = observer
        self._paths = paths
        for part, name in ((authenticator, "Authentication"), (authorizer, "Authorization")):
            if part is None:
                log.warning("%s is disabled", name)

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Whatever happens inside, there is an answer, and it tells nothing of the inside."""
        try:
            return await handler(request)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception:
            told = fields(method=request.method, URI=str(request.rel_url))
            log.exception("apiserver panic'd", extra=told)
            return error_text(
                "This request caused apiserver to panic. Look in the logs for details.", 500
            )

    @web.middleware
    async def recorded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.monotonic()
        status = 500
        try:
            answer = await handler(request)
            status = answer.status
            return answer
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            seconds = time.monotonic() - started
            found = self._paths.find(request.path)
            known = found[0] if found is not None else ""
            self._observer.requested(request.method, known, status, seconds)
            if log.isEnabledFor(V(3)):
                self._log(request, status, seconds)

    @staticmethod
    def _log(request: web.Request, status: int, seconds: float) -> None:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        told = {
            "verb": request.method,
            "URI": str(request.rel_url),
            "latency": Duration(int(seconds * 1e9)),
            "userAgent": readable(request.headers.get("User-Agent", "")),
            "audit-ID": "",
            "srcIP": joined(*peer[:2]) if peer else "",
            "resp": status,
        }
        log.log(V(3), "HTTP", extra=fields(**told))

    @web.middleware
    async def authenticated(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        _USER.set(None)
        if self._authenticator is None:
            return await handler(request)
        credentials = Credentials(request.headers, client_certificate(request))
        try:
            _USER.set(await self._authenticator.authenticate(credentials))
        except UnauthenticatedError:
            return failure(request, 401, "Unauthorized", "Unauthorized")
        return await handler(request)

    @web.middleware
    async def authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        user = current_user()
        if self._authorizer is None or user is None:
            return await handler(request)
        verb, path = request.method.lower(), request.path
        try:
            verdict = await self._authorizer.authorize(user, verb, path)
        except AuthorizationFailedError as error:
            message = f"Internal Server Error: {quoted(str(request.rel_url))}: {error}"
            return error_text(_harmless(message), 500)
        if verdict.allowed:
            return await handler(request)
        told = fields(URI=str(request.rel_url), reason=verdict.reason)
        log.log(V(4), "Forbidden", extra=told)
        message = _harmless(f"User {quoted(user.name)} cannot {verb} path {quoted(path)}")
        whole = ": ".join(filter(None, ("forbidden", message, verdict.reason)))
        return failure(request, 403, "Forbidden", whole, details=True, headers=NO_SNIFF)


def _harmless(text: str) -> str:
    """A text that no browser takes for HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def client_certificate(request: web.Request) -> ClientCertificate | None:
    """What the client showed in the handshake of its connection."""
    connection = request.transport.get_extra_info("ssl_object") if request.transport else None
    if connection is None:
        return None
    leaf = connection.getpeercert(binary_form=True)
    if not leaf:
        return None
    try:
        own, *others = map(x509.load_der_x509_certificate, [leaf, *_sent_along(connection)])
    except ValueError:
        return None
    return ClientCertificate(own, tuple(others))


def _sent_along(connection: ssl.SSLObject) -> Sequence[bytes]:
    """The rest of the client's chain; before Python 3.13 only an inner object tells it."""
    teller = connection if hasattr(connection, "get_unverified_chain") else None
    teller = teller or getattr(connection, "_sslobj", None)
    with contextlib.suppress(AttributeError, ssl.SSLError, TypeError):
        chain = teller.get_unverified_chain()  # type: ignore[union-attr]
        return [_der(certificate) for certificate in chain[1:]]
    return ()


def _der(certificate: object) -> bytes:
    """Python 3.13 hands out bytes, its predecessors objects (of which 2 asks for DER)."""
    if isinstance(certificate, bytes):
        return certificate
    encoded: bytes = certificate.public_bytes(2)  # type: ignore[attr-defined]
    return encoded
