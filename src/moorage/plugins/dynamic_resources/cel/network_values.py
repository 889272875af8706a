"""IP addresses and networks as CEL has them: without zones, and IPv4 never dressed up as IPv6.

Owns reading and printing them. A network keeps the address it was written with, host bits and all.
"""

from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError


@dataclass(frozen=True, slots=True)
class IP:
    """An address."""

    address: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return str(self.address)


@dataclass(frozen=True, slots=True)
class CIDR:
    """A network: an address and how many of its leading bits count."""

    ip: IP
    bits: int

    def __str__(self) -> str:
        return f"{self.ip}/{self.bits}"

    @property
    def masked(self) -> "CIDR":
        """The same network, named by its first address."""
        address = self.ip.address
        host_bits = address.max_prefixlen - self.bits
        first = int(address) >> host_bits << host_bits
        return CIDR(IP(type(address)(first)), self.bits)

    def contains(self, ip: IP) -> bool:
        """Is the address one of the network's?"""
        if type(ip.address) is not type(self.ip.address):
            return False
        host_bits = ip.address.max_prefixlen - self.bits
        return int(ip.address) >> host_bits == int(self.ip.address) >> host_bits

    def covers(self, other: "CIDR") -> bool:
        """Are all addresses of another network among this one's?"""
        return self.bits <= other.bits and self.contains(other.ip)


def parse_ip(text: str) -> IP:
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
    return IP(address)


def parse_cidr(text: str) -> CIDR:
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
    return CIDR(IP(address), int(bits))


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        if ":" in text:
            return IPv6Address(text)
        return IPv4Address(text)
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
