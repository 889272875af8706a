"""Who we are, always up to date: bearer tokens, token files, plugins, OIDC, impersonation.

Turns an `Access` into the headers of a request and the client certificate of a connection, now
and after they have been rotated. Sends no API request itself.
"""

import asyncio
import base64
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import msgspec

from moorage.errors import KubeconfigError
from moorage.kube.access import Access, Impersonation, Pem
from moorage.kube.timing import Timer

TOKEN_FILE_PERIOD = 60.0
"""How long a token file's content is trusted; the kubelet rotates well before a token expires."""

Headers = tuple[tuple[str, str], ...]


class Credential(msgspec.Struct, frozen=True):
    """What a source hands out; `expires` in seconds since the epoch, None for "until refused"."""

    token: str = ""
    certificate: Pem = Pem()
    key: Pem = Pem()
    expires: float | None = None


class PluginObserver(Protocol):
    """Is told of credential plugins, in client-go's words."""

    def plugin_ran(self, code: int, status: str) -> None:
        """A plugin was called: its exit code, and `no_error` or what kind of error."""

    def plugin_certificate(self, begins: float, ends: float) -> None:
        """A plugin has issued another client certificate, good from then to then."""


class CredentialSource(Protocol):
    """Something that hands out credentials when asked: a plugin, an identity provider."""

    async def fetch(self) -> Credential:
        """New credentials, or `KubeconfigError`."""
        ...


class TokenFile:
    """A token in a file that somebody else replaces from time to time."""

    def __init__(self, path: str, timer: Timer) -> None:
        self._path = Path(path)
        self._timer = timer
        self._token = ""

    async def fetch(self) -> Credential:
        """The token, to be read again in a minute; the last good one if there is none now."""
        try:
            self._token = self._path.read_text().strip() or self._token
        except OSError as error:
            if not self._token:
                reason = error.strerror or str(error)
                raise KubeconfigError(f"the token file {self._path}: {reason}") from None
        if not self._token:
            raise KubeconfigError(f"the token file {self._path} is empty")
        return Credential(token=self._token, expires=self._timer.now() + TOKEN_FILE_PERIOD)


class Credentials:
    """The one who is asked before every request and every connection."""

    def __init__(self, access: Access, timer: Timer, source: CredentialSource | None) -> None:
        self._access = access
        self._timer = timer
        self._impersonation = _impersonation_headers(access.impersonate)
        self._source = TokenFile(access.token_file, timer) if access.token_file else source
        self._current: Credential | None = None
        self._asking = asyncio.Lock()
        self._fixed = self._unchanging()

    @property
    def refreshable(self) -> bool:
        """Could the next answer differ from the last?"""
        return self._source is not None

    @property
    def issues_certificates(self) -> bool:
        """May the client certificate change without a file that would show it?"""
        return not (self._source is None or isinstance(self._source, TokenFile))

    def known_headers(self) -> Headers | None:
        """The headers that say who is asking; None if somebody has to be asked for them first."""
        if self._fixed is not None:
            return self._fixed
        known = self._valid()
        return None if known is None else self._bearing(known.token)

    async def headers(self) -> Headers:
        """The headers that say who is asking."""
        known = self.known_headers()
        return self._bearing((await self._credential()).token) if known is None else known

    async def certificate(self) -> tuple[Pem, Pem]:
        """The client certificate and its key; both empty if there is none."""
        access = self._access
        if access.client_certificate or not self.issues_certificates:
            return access.client_certificate, access.client_key
        credential = await self._credential()
        return credential.certificate, credential.key

    def refused(self) -> None:
        """The server did not accept them: get new ones the next time."""
        self._current = None

    async def _credential(self) -> Credential:
        """Valid credentials; while one caller asks the source, the others wait for its answer."""
        assert self._source is not None, "else they are known"
        async with self._asking:
            known = self._valid()
            if known is None:
                known = self._current = await self._source.fetch()
            return known

    def _valid(self) -> Credential | None:
        known = self._current
        if known is None or known.expires is None or self._timer.now() < known.expires:
            return known
        return None

    def _unchanging(self) -> Headers | None:
        """The headers, where they can never be others."""
        access = self._access
        if access.token_file:
            return None
        if access.token:
            return self._bearing(access.token)
        if access.username:
            return self._with(basic_authorization(access.username, access.password))
        return self._impersonation if self._source is None else None

    def _bearing(self, token: str) -> Headers:
        return self._with(f"Bearer {token}") if token else self._impersonation

    def _with(self, authorization: str) -> Headers:
        return (("Authorization", authorization), *self._impersonation)


def basic_authorization(user: str, password: str) -> str:
    """The header's value for HTTP's oldest way to say who one is."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _impersonation_headers(who: Impersonation) -> Headers:
    headers: list[tuple[str, str]] = []
    if who.user:
        headers.append(("Impersonate-User", who.user))
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers.extend(("Impersonate-Group", group) for group in who.groups)
    # The key becomes part of a header's name, so what may not stand there is percent-encoded.
    headers.extend(
        (f"Impersonate-Extra-{quote(key, safe='')}", value)
        for key, values in who.extra
        for value in values
    )
    return tuple(headers)
