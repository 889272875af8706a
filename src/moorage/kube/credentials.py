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
        self._read_at = 0.0

    def token(self) -> str:
        """The token, read again when a minute has passed; the last good one if that fails."""
        now = self._timer.now()
        if self._token and now - self._read_at < TOKEN_FILE_PERIOD:
            return self._token
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            if self._token:
                return self._token
            reason = error.strerror or str(error)
            raise KubeconfigError(f"the token file {self._path}: {reason}") from None
        if not token and not self._token:
            raise KubeconfigError(f"the token file {self._path} is empty")
        self._token = token or self._token
        self._read_at = now
        return self._token

    def forget(self) -> None:
        """Read the file anew the next time: the server refused the token."""
        self._read_at = float("-inf")


class CachedSource:
    """A source asked only when its last answer has expired or was refused."""

    def __init__(self, source: CredentialSource, timer: Timer) -> None:
        self._source = source
        self._timer = timer
        self._current: Credential | None = None
        self._asking = asyncio.Lock()

    async def credential(self) -> Credential:
        """Valid credentials; while one caller asks the source, the others wait for its answer."""
        async with self._asking:
            if self._current is None or self._is_expired(self._current):
                self._current = await self._source.fetch()
            return self._current

    def forget(self) -> None:
        """Ask anew the next time."""
        self._current = None

    def _is_expired(self, credential: Credential) -> bool:
        return credential.expires is not None and self._timer.now() >= credential.expires


class Credentials:
    """The one who is asked before every request and every connection."""

    def __init__(self, access: Access, timer: Timer, source: CredentialSource | None) -> None:
        self._access = access
        self._file = TokenFile(access.token_file, timer) if access.token_file else None
        self._source = CachedSource(source, timer) if source is not None else None
        self._impersonation = _impersonation_headers(access.impersonate)
        self._fixed = self._unchanging()

    @property
    def refreshable(self) -> bool:
        """Could the next answer differ from the last?"""
        return self._file is not None or self._source is not None

    @property
    def issues_certificates(self) -> bool:
        """May the client certificate change without a file that would show it?"""
        return self._source is not None

    def known_headers(self) -> Headers | None:
        """The headers that say who is asking; None if somebody has to be asked for them first."""
        if self._fixed is not None:
            return self._fixed
        if self._file is not None:
            return self._with(f"Bearer {self._file.token()}")
        return None

    async def headers(self) -> Headers:
        """The headers that say who is asking."""
        known = self.known_headers()
        if known is not None:
            return known
        assert self._source is not None, "else they are known"
        token = (await self._source.credential()).token
        return self._with(f"Bearer {token}" if token else "")

    async def certificate(self) -> tuple[Pem, Pem]:
        """The client certificate and its key; both empty if there is none."""
        access = self._access
        if access.client_certificate or self._source is None:
            return access.client_certificate, access.client_key
        credential = await self._source.credential()
        return credential.certificate, credential.key

    def refused(self) -> None:
        """The server did not accept them: get new ones the next time."""
        if self._file is not None:
            self._file.forget()
        if self._source is not None:
            self._source.forget()

    def _unchanging(self) -> Headers | None:
        """The headers, where they can never be others."""
        access = self._access
        if self._file is not None:
            return None
        if access.token:
            return self._with(f"Bearer {access.token}")
        if access.username:
            return self._with(basic_authorization(access.username, access.password))
        return self._with("") if self._source is None else None

    def _with(self, authorization: str) -> Headers:
        if authorization:
            return (("Authorization", authorization), *self._impersonation)
        return self._impersonation


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
