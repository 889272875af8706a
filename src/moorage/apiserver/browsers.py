"""Keeps web pages from using a server on loopback through a browser on this machine.

Any web site that the browser visits can send requests here; it cannot read the answers, but a write
would be executed. Browsers send headers that say where a request comes from; programs do not.

A web site can also have its own name lead here (DNS rebinding), and would then read and change
everything, since who connects to loopback needs no token. So names other than this machine's own
are refused; addresses lead nowhere else.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

_FOREIGN_SITES = ("cross-site", "same-site")
_SAFE_METHODS = ("GET", "HEAD")
_BROWSERS_ONLY = ("Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest")


def is_cross_origin(method: str, headers: Mapping[str, str]) -> bool:
    """Does the request come from a page of another origin?

    Following a link does not count: it changes nothing, and the page with the link does not see
    the answer.
    """
    if method in _SAFE_METHODS and _is_link(headers):
        return False
    if headers.get("Sec-Fetch-Site", "").strip().lower() in _FOREIGN_SITES:
        return True
    origin = headers.get("Origin")
    if origin is None:
        return False
    scheme, _, host = origin.strip().lower().partition("://")
    return scheme not in ("http", "https") or host != headers.get("Host", "").strip().lower()


def is_from_browser(headers: Mapping[str, str]) -> bool:
    """Does a header say that a browser sent the request, whatever page made it?"""
    return any(name in headers for name in _BROWSERS_ONLY) or headers.get(
        "User-Agent", ""
    ).startswith("Mozilla/")


def _is_link(headers: Mapping[str, str]) -> bool:
    return (
        headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    )


LOCALHOST = "localhost"


def is_loopback(host: str) -> bool:
    """Does only this machine reach a server that listens there?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == LOCALHOST


def names_this_machine(host: str) -> bool:
    """Is a `Host` header an address, or this machine's own name?"""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(name)
    except ValueError:
        return name == LOCALHOST or name.endswith(f".{LOCALHOST}")
    return True
