"""URLs as CEL has them, read by the rules of Go's `net/url`.

Owns which texts are URLs that a request could be made to, in Go's words if they are not, and the
parts of those that are.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.network_values import parse_ip

_Refuse = Callable[[str], EvaluationError]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})(.{0,2})", re.DOTALL)
_PORT = re.compile(r"(:[0-9]*)?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%@-]*")
_NOT_IN_HOSTS = re.compile(r"[^A-Za-z0-9_.~!$&'()*+,;=:\[\]<>\"%-]", re.ASCII)
_UNESCAPED_IN_PATHS = "/-_.~$&+:=@"
_VALID_IN_PATHS = re.compile(r"[A-Za-z0-9/_.~!$&'()*+,;=:@\[\]%-]*")


@dataclass(frozen=True, slots=True)
class URL:
    """A URL and its parts; equal to another that is written the same."""

    text: str
    scheme: str = ""
    host: str = ""
    path: str = ""
    """As it was written."""
    query: str = ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return self._split_host()[0]

    @property
    def port(self) -> str:
        """The port, if one is given."""
        return self._split_host()[1]

    @property
    def escaped_path(self) -> str:
        """The path with everything escaped that has to be."""
        if self.path == "*" or _VALID_IN_PATHS.fullmatch(self.path):
            return self.path
        return quote(unquote_to_bytes(self.path), safe=_UNESCAPED_IN_PATHS)

    def values(self) -> dict[str, list[str]]:
        """The query by key; what is malformed is left out."""
        found: dict[str, list[str]] = {}
        for pair in self.query.split("&"):
            key, _, value = pair.partition("=")
            if pair and ";" not in pair and not _BAD_ESCAPE.search(pair):
                found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
        return found

    def _split_host(self) -> tuple[str, str]:
        host, port = self.host, ""
        head, colon, tail = host.rpartition(":")
        if colon and _PORT.fullmatch(colon + tail):
            host, port = head, tail
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port


def parse_url(text: str) -> URL:
    """A URL; raises `EvaluationError`."""
    try:
        _parse(text)
        # A request has no fragment: there it would be taken for a part of the path.
        return _parse(text.partition("#")[0], text)
    except EvaluationError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def url_complaint(text: str) -> str | None:
    """Why a text is no URL that a request could be made to."""
    try:
        _parse(text)
    except EvaluationError as error:
        return str(error)
    return None


def _parse(text: str, written: str | None = None) -> URL:
    def refuse(complaint: str) -> EvaluationError:
        return EvaluationError(f'parse "{text}": {complaint}')

    if any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):
        raise refuse("net/url: invalid control character in URL")
    if not text:
        raise refuse("empty url")
    if text == "*":
        return URL(written or text, path="*")
    if text.startswith(":"):
        raise refuse("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme = match.group()[:-1].lower() if match else ""
    rest, _, query = text[match.end() if match else 0 :].partition("?")
    host = ""
    if not rest.startswith("/"):
        if not scheme:
            raise refuse("invalid URI for request")
        return URL(written or text, scheme, query=query)
    if scheme and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        host = _host(scheme, authority, refuse)
    _check_escapes(rest, refuse)
    return URL(written or text, scheme, host, rest, query)


def _host(scheme: str, authority: str, refuse: _Refuse) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise refuse("net/url: invalid userinfo")
    _check_escapes(user, refuse)
    if host.startswith("["):
        inside, bracket, port = host[1:].rpartition("]")
        if not bracket:
            raise refuse("missing ']' in host")
        _check_port(port, refuse)
        try:
            parse_ip(inside.partition("%25")[0])
        except EvaluationError:
            raise refuse(f'invalid host: ParseAddr("{inside}"): unable to parse IP') from None
        return host
    if "[" in host:
        raise refuse("invalid IP-literal")
    first = host.find(":")
    if first >= 0:
        _check_port(host[first if scheme in ("http", "https") else host.rfind(":") :], refuse)
    if bad := _NOT_IN_HOSTS.search("".join(c for c in host if c.isascii())):
        raise refuse(f'invalid character "{bad.group()}" in host name')
    _check_escapes(host, refuse)
    return host


def _check_port(port: str, refuse: _Refuse) -> None:
    if not _PORT.fullmatch(port):
        raise refuse(f'invalid port "{port}" after host')


def _check_escapes(text: str, refuse: _Refuse) -> None:
    if bad := _BAD_ESCAPE.search(text):
        raise refuse(f'invalid URL escape "{bad.group()}"')
