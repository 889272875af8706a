"""What stands behind the question mark of a request, checked: one sentence about whatever is wrong.

Owns reading numbers, switches and the opaque tokens that pages are continued with. Knows no page.
"""

import base64
import binascii
import re
from collections.abc import Sequence

from aiohttp import web

from moorage.config.field_errors import quoted
from moorage.errors import MoorageError

NOT_CONTINUED = "parameter continue is not what the page before gave"
_NUMBER = re.compile(r"[0-9]{1,18}")
_SWITCH = {"true": True, "1": True, "false": False, "0": False}
_ALWAYS = frozenset({"pretty"})
"""Of every request, as at an API server: the answer is to be indented."""


class BadParameterError(MoorageError):
    """A parameter cannot be read; the message says which and what was expected."""


class Parameters:
    """The parameters of one request."""

    def __init__(self, request: web.Request, *known: str) -> None:
        self._query = request.query
        for name in self._query:
            if name not in known and name not in _ALWAYS:
                expected = f"expected {_listed(known)}" if known else "there are none"
                raise BadParameterError(f"unknown parameter {quoted(name)}: {expected}")

    def text(self, name: str, default: str = "") -> str:
        """A word."""
        values = self._query.getall(name, [])
        if len(values) > 1:
            raise BadParameterError(f"parameter {name} is given {len(values)} times")
        return values[0] if values else default

    def texts(self, name: str, most: int) -> Sequence[str]:
        """Words, each given by a parameter of its own; none of them twice."""
        found = tuple(dict.fromkeys(self._query.getall(name, [])))
        if len(found) > most:
            raise BadParameterError(
                f"parameter {name} is given {len(found)} times, expected at most {most}"
            )
        return found

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds."""
        text = self.text(name)
        if not text:
            return default
        value = int(text) if _NUMBER.fullmatch(text) else -1
        if not least <= value <= most:
            raise BadParameterError(
                f"parameter {name} is {quoted(text)}, expected a number from {least} to {most}"
            )
        return value

    def switch(self, name: str, default: bool) -> bool:
        """True or false."""
        text = self.text(name)
        if not text:
            return default
        if text not in _SWITCH:
            raise BadParameterError(f"parameter {name} is {quoted(text)}, expected true or false")
        return _SWITCH[text]

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of some words, by default the first."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise BadParameterError(
                f"parameter {name} is {quoted(text)}, expected {_listed(choices)}"
            )
        return text

    def continued(self, kind: str) -> str:
        """Where a page of this kind begins: what `token` was given; empty for the first page."""
        text = self.text("continue")
        if not text:
            return ""
        try:
            found = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        except (binascii.Error, ValueError):
            found = ""
        name, colon, place = found.partition(":")
        if name != kind or not colon or not place:
            raise BadParameterError(NOT_CONTINUED)
        return place


def token(kind: str, place: str) -> str:
    """What continues a page of this kind after a place; empty for none."""
    if not place:
        return ""
    return base64.urlsafe_b64encode(f"{kind}:{place}".encode()).decode().rstrip("=")


def _listed(words: Sequence[str]) -> str:
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} or {words[-1]}"
