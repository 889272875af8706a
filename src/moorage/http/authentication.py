"""Who asks: request headers of a trusted proxy, a client certificate, a bearer token, or nobody.

Owns the order of these, what counts as a failed claim, and the names that Kubernetes gives to users
and groups. Opens no connection by itself: tokens are asked about through `reviews`, and
`delegation` keeps the authorities up to date.
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from moorage.errors import ApiError, UnauthenticatedError
from moorage.http.certificates import Bundle, ClientCertificate
from moorage.http.endpoints import SILENT, PortObserver
from moorage.http.options import RequestHeaderOptions
from moorage.http.reviews import TIMEOUT, AnswerCache, Reviewer
from moorage.kube.requests import token_review
from moorage.log_fields import fields

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
ANONYMOUS_NAME = "system:anonymous"

log = logging.getLogger(__name__)

_MOST_TOKENS = 4096
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_USER_ID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


@dataclass(frozen=True, slots=True)
class User:
    """A user as the review APIs describe one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_authenticated_group(self) -> "User":
        """The same user, in the group of all who have proved who they are."""
        if self.name == ANONYMOUS_NAME or {AUTHENTICATED, UNAUTHENTICATED} & set(self.groups):
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS = User(ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))


def readable(text: str) -> str:
    """A header's value without bytes that are no text; nobody's name has such."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    """What a request brings: its headers, and the certificate of its connection."""

    headers: "CIMultiDictProxy[str]"
    certificate: ClientCertificate | None = None


class Proxies:
    """Believes headers of those who show a certificate of the right authority."""

    def __init__(self, bundle: Bundle, headers: RequestHeaderOptions) -> None:
        self.bundle = bundle
        self.headers = headers

    async def user(self, credentials: RequestCredentials) -> User | None:
        """The user that a proxy names; None if nobody claims that."""
        certificate = credentials.certificate
        if certificate is None or not self.bundle:
            return None
        if not self.bundle.vouches_for(certificate):
            raise UnauthenticatedError("x509: certificate signed by unknown authority")
        allowed = self.headers.allowed_names
        name = common_name(certificate.leaf)
        if allowed and name not in allowed:
            raise UnauthenticatedError(f"x509: subject with cn={name} is not in the allowed list")
        return self._named(credentials.headers)

    def _named(self, headers: "CIMultiDictProxy[str]") -> User | None:
        name = _first(headers, self.headers.username_headers)
        if not name:
            return None
        groups = [
            readable(value)
            for header in self.headers.group_headers
            for value in headers.getall(header, ())
            if value
        ]
        return User(
            name,
            _first(headers, self.headers.uid_headers),
            tuple(groups),
            _extra(headers, self.headers.extra_headers_prefixes),
        )


class ClientCertificates:
    """Knows those whose certificate an authority for clients has issued."""

    def __init__(self, bundle: Bundle, observer: PortObserver = SILENT) -> None:
        self.bundle = bundle
        self._observer = observer

    async def user(self, credentials: RequestCredentials) -> User | None:
        """The user of the connection's certificate; None without one."""
        certificate = credentials.certificate
        if certificate is None or not self.bundle:
            return None
        left = certificate.leaf.not_valid_after_utc - datetime.now(UTC)
        self._observer.client_certificate(left.total_seconds())
        if not self.bundle.vouches_for(certificate):
            raise UnauthenticatedError(
                f"verifying certificate SN={certificate.leaf.serial_number} failed:"
                " x509: certificate signed by unknown authority"
            )
        return _certified(certificate)


class Tokens:
    """Asks the API server whose a bearer token is, and remembers the answer for a while."""

    def __init__(
        self, reviewer: Reviewer, keep_seconds: float, *, observer: PortObserver = SILENT
    ) -> None:
        self._reviewer = reviewer
        self._observer = observer
        self._secret = secrets.token_bytes(32)
        self._answers: AnswerCache[bytes, User | UnauthenticatedError] = AnswerCache(
            _MOST_TOKENS, lambda answer: keep_seconds if _lasting(answer) else 0.0
        )

    async def user(self, credentials: RequestCredentials) -> User | None:
        """The token's holder; None without a token."""
        token = readable(bearer_token(credentials.headers))
        if not token:
            return None
        # Tokens themselves do not stay in memory.
        key = hashlib.blake2b(token.encode(), key=self._secret, digest_size=32).digest()
        started = time.monotonic()
        hit = self._answers.known(key) is not None
        try:
            answer = await self._answers.get(key, lambda: self._review(token))
        except ApiError as error:
            log.error("Failed to make webhook authenticator request: %s", error)
            raise UnauthenticatedError(str(error)) from error
        finally:
            self._observer.token_cached(hit, time.monotonic() - started)
        if isinstance(answer, UnauthenticatedError):
            raise UnauthenticatedError(str(answer))
        return answer

    async def close(self) -> None:
        await self._answers.close()

    async def _review(self, token: str) -> User | UnauthenticatedError:
        status = await self._reviewer.send("TokenReview", token_review(token), within=TIMEOUT)
        if status.get("authenticated") is not True:
            return UnauthenticatedError(status.get("error") or _INVALID)
        return _reviewed(status.get("user"))


_INVALID = "invalid bearer token"


def _lasting(answer: User | UnauthenticatedError) -> bool:
    """A plain no is remembered like a yes; a no with a reason may change the next time."""
    return isinstance(answer, User) or str(answer) == _INVALID


class Authenticator:
    """Asks the parts that there are, in their order; who claims nothing is anonymous."""

    def __init__(
        self,
        proxies: Proxies | None = None,
        certificates: ClientCertificates | None = None,
        tokens: Tokens | None = None,
        *,
        observer: PortObserver = SILENT,
    ) -> None:
        self.proxies = proxies
        self.certificates = certificates
        self.tokens = tokens
        self._observer = observer

    @property
    def bundles(self) -> tuple[Bundle, ...]:
        """The authorities whose certificates clients may show."""
        parts = (self.certificates, self.proxies)
        return tuple(part.bundle for part in parts if part is not None)

    async def authenticate(self, credentials: RequestCredentials) -> User:
        """Who asks; `UnauthenticatedError` for those who claim what they cannot prove."""
        started = time.monotonic()
        result, name = "error", ""
        try:
            user = await self._known(credentials)
            user = ANONYMOUS if user is None else user.with_authenticated_group()
            result, name = "success", user.name
            return user
        finally:
            self._observer.authenticated(result, name, time.monotonic() - started)

    async def _known(self, credentials: RequestCredentials) -> User | None:
        failures: list[str] = []
        for part in (self.proxies, self.certificates, self.tokens):
            try:
                user = None if part is None else await part.user(credentials)
            except UnauthenticatedError as error:
                failures.append(str(error))
            else:
                if user is not None:
                    return user
        if failures:
            reasons = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
            log.error("Unable to authenticate the request", extra=fields(err=reasons))
            raise UnauthenticatedError(reasons)
        return None


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token of an Authorization header; empty if there is none, or it is of another sort."""
    parts = headers.get("Authorization", "").strip().split(" ", 2)
    return parts[1] if len(parts) > 1 and parts[0].lower() == "bearer" else ""


def common_name(certificate: x509.Certificate) -> str:
    """The subject's common name, the last if there are several."""
    found = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(found[-1].value) if found else ""


def _certified(client: ClientCertificate) -> User | None:
    name = common_name(client.leaf)
    if not name:
        return None
    subject = client.leaf.subject
    uids = [str(found.value) for found in subject.get_attributes_for_oid(_USER_ID)]
    if len(uids) > 1:
        raise UnauthenticatedError(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if uids == [""]:
        raise UnauthenticatedError("UID cannot be an empty string")
    groups = subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    print_ = client.leaf.fingerprint(hashes.SHA256()).hex()
    return User(
        name,
        uids[0] if uids else "",
        tuple(str(found.value) for found in groups),
        {_CREDENTIAL_ID: (f"X509SHA256={print_}",)},
    )


def _reviewed(info: object) -> User:
    """`UserInfo` of an answer; what is not as it should be counts as missing."""
    found = info if isinstance(info, dict) else {}
    extra = found.get("extra") or {}
    return User(
        str(found.get("username") or ""),
        str(found.get("uid") or ""),
        tuple(str(group) for group in found.get("groups") or ()),
        {str(key): tuple(str(value) for value in values or ()) for key, values in extra.items()},
    )


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((readable(value) for name in names if (value := headers.get(name, ""))), "")


def _extra(
    headers: "CIMultiDictProxy[str]", prefixes: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for header in dict.fromkeys(name.lower() for name in headers):
            if header.startswith(prefix.lower()):
                key = unquote(header[len(prefix) :])
                extra[key] = (*extra.get(key, ()), *map(readable, headers.getall(header)))
    return extra
