"""The port's pages behind its guards: who asks, may they, and what is answered when all goes wrong.

Owns the order of the guards; aiohttp's router chooses the handler. Pages are in other modules, and
`authentication` and `authorization` decide whom to believe.
"""

import asyncio
import contextlib
import logging
import ssl
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar

from aiohttp import web
from cryptography import x509

from moorage.config.field_errors import quoted
from moorage.errors import AuthorizationFailedError, UnauthenticatedError
from moorage.http.answers import NO_SNIFF, error_text, failure
from moorage.http.authentication import Authenticator, RequestCredentials, User, readable
from moorage.http.authorization import Authorizer
from moorage.http.certificates import ClientCertificate
from moorage.http.endpoints import SILENT, Endpoints, Handler, PortObserver, Route
from moorage.http.pages import (
    configz,
    flagz,
    health_routes,
    metric_routes,
    statusz,
    verbosity_routes,
)
from moorage.http.profiling import profiling_routes
from moorage.http.secure_port import joined
from moorage.log_fields import V, fields
from moorage.model.duration import Duration

log = logging.getLogger(__name__)

MAX_BODY = 1 << 16
_USER: ContextVar[User | None] = ContextVar("user", default=None)
"""Set anew for every request: one task serves all requests of a connection."""
_CACHE_CONTROL = {"Cache-Control": "no-cache, private"}


def add_routes(app: web.Application, routes: Iterable[Route]) -> None:
    """Have the application's router lead to these pages, whatever the method."""
    for route in routes:
        app.router.add_route("*", route.path, route.handler)
        if route.prefix:
            app.router.add_route("*", route.path.rstrip("/") + "/{rest:.*}", route.handler)


def build_application(
    endpoints: Endpoints,
    authenticator: Authenticator | None,
    authorizer: Authorizer | None,
    observer: PortObserver = SILENT,
) -> web.Application:
    """All pages; without an authenticator or authorizer everybody may see them."""
    guards = _Guards(authenticator, authorizer)
    app = web.Application(
        middlewares=[
            guards.answered,
            guards.logged,
            guards.authenticated,
            guards.authorized,
            guards.found,
        ],
        client_max_size=MAX_BODY,
    )
    add_routes(app, _routes(endpoints, observer))
    app.on_response_prepare.append(_no_caching)
    return app


def current_user() -> User | None:
    """Who asks, for handlers of extra routes; None where nobody is asked who they are."""
    return _USER.get()


def _routes(endpoints: Endpoints, observer: PortObserver) -> Sequence[Route]:
    routes = [
        *health_routes("healthz", endpoints.healthz, observer),
        *health_routes("livez", endpoints.livez, observer),
        *health_routes("readyz", endpoints.readyz, observer),
        Route("/configz", configz(endpoints.configz)),
        *metric_routes(endpoints),
    ]
    if endpoints.profiling:
        routes += profiling_routes()
        routes += verbosity_routes(endpoints.set_verbosity)
    routes += endpoints.extra
    if endpoints.flags is not None:
        routes.append(Route("/flagz", flagz(endpoints.flags)))
    if endpoints.statusz is not None:
        listed = [route.path for route in routes if route.listed]
        page = statusz(endpoints.statusz, listed)
        routes.append(Route("/statusz", page))
    return routes


async def _no_caching(_: web.Request, answer: web.StreamResponse) -> None:
    if "Cache-Control" not in answer.headers:
        answer.headers.update(_CACHE_CONTROL)
    answer.headers.popall("Server", None)  # nobody needs to know what we are made of


class _Guards:
    """The middlewares, from the outermost to the innermost."""

    def __init__(self, authenticator: Authenticator | None, authorizer: Authorizer | None) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        for part, name in ((authenticator, "Authentication"), (authorizer, "Authorization")):
            if part is None:
                log.warning("%s is disabled", name)

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Whatever happens inside, there is an answer, and it reveals nothing of the inside."""
        try:
            return await handler(request)
        except (web.HTTPException, asyncio.CancelledError):
            raise
        except Exception:
            asked = fields(method=request.method, URI=str(request.rel_url))
            log.exception("apiserver panic'd", extra=asked)
            return error_text(
                "This request caused apiserver to panic. Look in the logs for details.", 500
            )

    @web.middleware
    async def logged(self, request: web.Request, handler: Handler) -> web.StreamResponse:
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
            if log.isEnabledFor(V(3)):
                self._log(request, status, time.monotonic() - started)

    @staticmethod
    def _log(request: web.Request, status: int, seconds: float) -> None:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        values = {
            "verb": request.method,
            "URI": str(request.rel_url),
            "latency": Duration(int(seconds * 1e9)),
            "userAgent": readable(request.headers.get("User-Agent", "")),
            "audit-ID": "",
            "srcIP": joined(*peer[:2]) if peer else "",
            "resp": status,
        }
        log.log(V(3), "HTTP", extra=fields(**values))

    @web.middleware
    async def authenticated(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        _USER.set(None)
        if self._authenticator is None:
            return await handler(request)
        credentials = RequestCredentials(request.headers, client_certificate(request))
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
        why = fields(URI=str(request.rel_url), reason=verdict.reason)
        log.log(V(4), "Forbidden", extra=why)
        message = _harmless(f"User {quoted(user.name)} cannot {verb} path {quoted(path)}")
        whole = ": ".join(filter(None, ("forbidden", message, verdict.reason)))
        return failure(request, 403, "Forbidden", whole, details=True, headers=NO_SNIFF)

    @web.middleware
    async def found(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Who may not ask does not learn what there is, so this comes last."""
        if request.match_info.http_exception is not None:
            return error_text("404 page not found", 404)
        return await handler(request)


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
    """The rest of the client's chain; before Python 3.13 only an inner object has it."""
    teller = connection if hasattr(connection, "get_unverified_chain") else None
    teller = teller or getattr(connection, "_sslobj", None)
    with contextlib.suppress(AttributeError, ssl.SSLError, TypeError):
        chain = teller.get_unverified_chain()  # type: ignore[union-attr]
        return [_der(certificate) for certificate in chain[1:]]
    return ()


def _der(certificate: object) -> bytes:
    """Python 3.13 returns bytes, its predecessors return objects (2 asks them for DER)."""
    if isinstance(certificate, bytes):
        return certificate
    encoded: bytes = certificate.public_bytes(2)  # type: ignore[attr-defined]
    return encoded
