"""Recognises requests that come from web pages of other origins.

A browser on this machine reaches servers on loopback, so any web site that it visits can send
requests there; the site cannot read the answers, but a write would be executed. Browsers send
headers that say where a request comes from; programs do not.
"""

from collections.abc import Mapping

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
