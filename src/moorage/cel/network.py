"""IP addresses, networks and URLs: the values and the functions that Kubernetes adds for them.

Owns reading and printing them, in Go's words where that fails. Addresses have no zones, and IPv4 is
never dressed up as IPv6; a network keeps the address it was written with, host bits and all.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Interface,
    IPv6Address,
    IPv6Interface,
    ip_interface,
)
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from moorage.cel.errors import EvaluationError, no_such_overload, succeeds
from moorage.cel.types import Signatures

ADDRESSES = (IPv4Address, IPv6Address)
NETWORKS = (IPv4Interface, IPv6Interface)
Address = IPv4Address | IPv6Address
Network = IPv4Interface | IPv6Interface
"""An address and how many of its leading bits count."""


def parse_ip(text: str) -> Address:
    """An address."""
    address = _address(text)
    if address is None:
        raise EvaluationError(
            f'IP Address "{text}" parse error during conversion from string: '
            f'ParseAddr("{text}"): {_complaint(text)}'
        )
    if isinstance(address, IPv6Address):
        if "%" in text:
            raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
        if address.ipv4_mapped is not None:
            raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def parse_cidr(text: str) -> Network:
    """A network."""
    # Upstream says it twice.
    failed = "network address parse error during conversion from string: "
    head, slash, bits = text.rpartition("/")
    problem = ""
    address = _address(head) if slash else None
    if not slash:
        problem = "no '/'"
    elif address is None:
        problem = f'ParseAddr("{head}"): {_complaint(head)}'
    elif "%" in head:
        problem = "IPv6 zones cannot be present in a prefix"
    elif not (bits.isascii() and bits.isdigit()) or (len(bits) > 1 and bits[0] == "0"):
        problem = f'bad bits after slash: "{bits}"'
    elif len(bits) > 3 or int(bits) > address.max_prefixlen:
        problem = "prefix length out of range"
    if problem or address is None:
        raise EvaluationError(f'{failed}{failed}netip.ParsePrefix("{text}"): {problem}')
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'{failed}IPv4-mapped IPv6 address "{text}" is not allowed')
    return ip_interface((address.packed, int(bits)))


def _address(text: str) -> Address | None:
    try:
        return IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError:
        return None


def _complaint(text: str) -> str:
    """Roughly what Go says; it tells many more cases apart."""
    if not any(mark in text for mark in ".:%"):
        return "unable to parse IP"
    if ":" in text:
        return "unexpected character" if text.strip("0123456789abcdefABCDEF:.") else "invalid IPv6"
    parts = text.split(".")
    if any(part and not part.isdigit() for part in parts):
        return "unexpected character"
    if len(parts) != 4:
        return "IPv4 address too short" if len(parts) < 4 else "IPv4 address too long"
    if any(len(part) > 1 and part[0] == "0" for part in parts):
        return "IPv4 field has octet with leading zero"
    if "" in parts:
        return "IPv4 field must have at least one digit"
    return "IPv4 field has value >255"


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

    @property
    def split_host(self) -> tuple[str, str]:
        """The host without port and brackets, and the port."""
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


_LINK_LOCAL_MULTICAST = 0xFF02
_BROADCAST = IPv4Address("255.255.255.255")


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    add = signatures.add
    add("ip(string) -> ip", parse_ip)
    add("isIP(string) -> bool", succeeds(parse_ip))
    add("@ip.isCanonical(string) -> bool", lambda s: str(parse_ip(s)) == s)
    add("string(ip) -> string", str)
    add("ip.family() -> int", lambda ip: ip.version)
    add("ip.isUnspecified() -> bool", lambda ip: ip.is_unspecified)
    add("ip.isLoopback() -> bool", lambda ip: ip.is_loopback)
    add("ip.isLinkLocalMulticast() -> bool", _is_link_local_multicast)
    add("ip.isLinkLocalUnicast() -> bool", lambda ip: ip.is_link_local)
    add("ip.isGlobalUnicast() -> bool", _is_global_unicast)
    add("cidr(string) -> cidr", parse_cidr)
    add("isCIDR(string) -> bool", succeeds(parse_cidr))
    add("string(cidr) -> string", str)
    add("cidr.containsIP(string) -> bool", _contains_address)
    add("cidr.containsIP(ip) -> bool", lambda cidr, ip: ip in cidr.network)
    add("cidr.containsCIDR(string) -> bool", lambda cidr, text: _covers(cidr, parse_cidr(text)))
    add("cidr.containsCIDR(cidr) -> bool", _covers)
    add("cidr.ip() -> ip", lambda cidr: cidr.ip)
    add("cidr.prefixLength() -> int", lambda cidr: cidr.network.prefixlen)
    add("cidr.masked() -> cidr", lambda cidr: ip_interface(cidr.network))
    add("url(string) -> url", parse_url)
    add("isURL(string) -> bool", lambda text: url_complaint(text) is None)
    add("url.getScheme() -> string", lambda url: url.scheme)
    add("url.getHost() -> string", lambda url: url.host)
    add("url.getHostname() -> string", lambda url: url.split_host[0])
    add("url.getPort() -> string", lambda url: url.split_host[1])
    add("url.getEscapedPath() -> string", lambda url: url.escaped_path)
    add("url.getQuery() -> map(string, list(string))", lambda url: url.values())


def _covers(one: Network, other: Network) -> bool:
    """Are all addresses of the other network among the first one's?"""
    return one.network.prefixlen <= other.network.prefixlen and other.ip in one.network


def _contains_address(cidr: Network, text: str) -> bool:
    try:
        return parse_ip(text) in cidr.network
    except EvaluationError:  # upstream takes the failure for an address of the wrong type
        raise no_such_overload() from None


def _is_link_local_multicast(ip: Address) -> bool:
    if isinstance(ip, IPv4Address):
        return ip.packed[:3] == b"\xe0\x00\x00"
    return int(ip) >> 112 & 0xFF0F == _LINK_LOCAL_MULTICAST


def _is_global_unicast(ip: Address) -> bool:
    """Go's notion: neither multicast nor special; private networks are included."""
    special = ip.is_unspecified or ip.is_loopback or ip.is_multicast or ip.is_link_local
    return not special and ip != _BROADCAST
