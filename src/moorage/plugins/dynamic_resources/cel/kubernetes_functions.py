"""Functions on addresses, networks, URLs and named formats, which Kubernetes adds to CEL."""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.named_formats import FORMATS, NamedFormat
from moorage.plugins.dynamic_resources.cel.network_values import CIDR, IP, parse_cidr, parse_ip
from moorage.plugins.dynamic_resources.cel.types import Signatures
from moorage.plugins.dynamic_resources.cel.url_values import parse_url, url_complaint
from moorage.plugins.dynamic_resources.cel.values import Optional

_LINK_LOCAL_MULTICAST = 0xFF02
_BROADCAST = IPv4Address("255.255.255.255")


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    _declare_addresses(signatures)
    _declare_networks(signatures)
    _declare_urls(signatures)
    _declare_formats(signatures)


def _declare_addresses(signatures: Signatures) -> None:
    add = signatures.add
    add("string_to_ip", "ip(string) -> ip", parse_ip)
    add("is_ip", "isIP(string) -> bool", _succeeds(parse_ip))
    add("ip_is_canonical", "@ip.isCanonical(string) -> bool", lambda s: str(parse_ip(s)) == s)
    add("ip_to_string", "string(ip) -> string", str)
    add("ip_family", "ip.family() -> int", lambda ip: ip.address.version)
    add("ip_is_unspecified", "ip.isUnspecified() -> bool", lambda ip: ip.address.is_unspecified)
    add("ip_is_loopback", "ip.isLoopback() -> bool", lambda ip: ip.address.is_loopback)
    add(
        "ip_is_link_local_multicast",
        "ip.isLinkLocalMulticast() -> bool",
        _is_link_local_multicast,
    )
    add("ip_is_link_local_unicast", "ip.isLinkLocalUnicast() -> bool", _is_link_local_unicast)
    add("ip_is_global_unicast", "ip.isGlobalUnicast() -> bool", _is_global_unicast)


def _declare_networks(signatures: Signatures) -> None:
    add = signatures.add
    add("string_to_cidr", "cidr(string) -> cidr", parse_cidr)
    add("is_cidr", "isCIDR(string) -> bool", _succeeds(parse_cidr))
    add("cidr_to_string", "string(cidr) -> string", str)
    add(
        "cidr_contains_ip_string",
        "cidr.containsIP(string) -> bool",
        _contains_address,
    )
    add("cidr_contains_ip_ip", "cidr.containsIP(ip) -> bool", lambda cidr, ip: cidr.contains(ip))
    add(
        "cidr_contains_cidr_string",
        "cidr.containsCIDR(string) -> bool",
        lambda cidr, text: cidr.covers(parse_cidr(text)),
    )
    add("cidr_contains_cidr", "cidr.containsCIDR(cidr) -> bool", lambda one, two: one.covers(two))
    add("cidr_ip", "cidr.ip() -> ip", lambda cidr: cidr.ip)
    add("cidr_prefix_length", "cidr.prefixLength() -> int", lambda cidr: cidr.bits)
    add("cidr_masked", "cidr.masked() -> cidr", lambda cidr: cidr.masked)


def _contains_address(cidr: CIDR, text: str) -> bool:
    try:
        return cidr.contains(parse_ip(text))
    except EvaluationError:  # upstream takes the failure for an address of the wrong type
        raise no_such_overload() from None


def _declare_urls(signatures: Signatures) -> None:
    add = signatures.add
    add("string_to_url", "url(string) -> url", parse_url)
    add("is_url_string", "isURL(string) -> bool", lambda text: url_complaint(text) is None)
    add("url_get_scheme", "url.getScheme() -> string", lambda url: url.scheme)
    add("url_get_host", "url.getHost() -> string", lambda url: url.host)
    add("url_get_hostname", "url.getHostname() -> string", lambda url: url.hostname)
    add("url_get_port", "url.getPort() -> string", lambda url: url.port)
    add("url_get_escaped_path", "url.getEscapedPath() -> string", lambda url: url.escaped_path)
    add("url_get_query", "url.getQuery() -> map(string, list(string))", lambda url: url.values())


def _declare_formats(signatures: Signatures) -> None:
    signatures.add("format-named", "@format.named(string) -> optional(named_format)", _named_format)
    signatures.add(
        "format-validate",
        "named_format.validate(string) -> optional(list(string))",
        _validate,
    )
    for name, named in FORMATS.items():
        signatures.add(f"format.{name}", f"@format.{name}() -> named_format", _constant(named))


def _named_format(name: str) -> Optional:
    found = FORMATS.get(name)
    return Optional(False) if found is None else Optional(True, found)


def _validate(named: NamedFormat, text: str) -> Optional:
    complaints = named.validate(text)
    return Optional(True, complaints) if complaints else Optional(False)


def _constant(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


def _is_link_local_multicast(ip: IP) -> bool:
    address = ip.address
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return int(address) >> 112 & 0xFF0F == _LINK_LOCAL_MULTICAST


def _is_link_local_unicast(ip: IP) -> bool:
    return bool(ip.address.is_link_local)


def _is_global_unicast(ip: IP) -> bool:
    """Go's notion: neither multicast nor special; private networks are included."""
    address: IPv4Address | IPv6Address = ip.address
    return not (
        address in (_BROADCAST, IPv4Address(0))
        or address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
    )


def _succeeds(convert: Callable[[str], Any]) -> Callable[[str], bool]:
    def test(text: str) -> bool:
        try:
            convert(text)
        except EvaluationError:
            return False
        return True

    return test
