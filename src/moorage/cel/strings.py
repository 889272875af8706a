"""Functions on text, and regular expressions in linear time.

Owns CEL's string extensions, how patterns are compiled, Go's messages for invalid ones, and how
much a single search may do. Anybody who may create a claim writes patterns, so nothing here
backtracks: RE2 has the syntax and the results of Go's regexp.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import re2

from moorage.cel.errors import EvaluationAbortedError, EvaluationError, require_characters
from moorage.cel.operators import shown
from moorage.cel.types import Signatures

MAX_STEPS = 50_000_000
"""Instructions of the program times length of the text: about half a second at worst.

Upstream has no such limit. Texts as long as an attribute may be stay below it with every pattern.
"""
_COMPLAINTS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's message -> Go's; the others are the same."""
_WHOLE = frozenset(("missing )", "unexpected )"))
"""Messages that quote the whole pattern in Go."""


class Regex:
    """A compiled pattern."""

    __slots__ = ("_compiled", "_size")

    def __init__(self, pattern: str) -> None:
        """Raises `EvaluationError` if the pattern is invalid."""
        capturing = _compile(pattern, capture=True)  # otherwise RE2 ignores the names of groups
        for name in capturing.groupindex:
            if not name.isascii():
                start = "(?P<" if f"(?P<{name}>" in pattern else "(?<"
                raise _invalid("invalid named capture", f"{start}{name}>")
        if _matches_single_bytes(pattern):
            raise _invalid("invalid escape sequence", r"\C")
        self._compiled = _compile(pattern, capture=False)
        self._size: int = self._compiled.programsize

    def found_in(self, text: str) -> bool:
        """Does the pattern match somewhere in a text?"""
        self._limit(text)
        return self._compiled.search(text) is not None

    def first(self, text: str) -> str:
        """The leftmost match, empty if there is none."""
        self._limit(text)
        match = self._compiled.search(text)
        return "" if match is None else str(match.group())

    def all(self, text: str) -> Iterator[str]:
        """The matches from left to right; an empty one does not follow another at its end."""
        self._limit(text)
        end = -1
        for match in self._compiled.finditer(text):
            start, after = match.span()
            if start == after == end:
                continue
            end = after
            yield text[start:after]

    def _limit(self, text: str) -> None:
        if self._size * len(text) > MAX_STEPS:
            raise EvaluationAbortedError(
                "operation cancelled: regular expression too large for a text of "
                f"{len(text)} characters"
            )


@lru_cache(maxsize=256)
def compiled_regex(pattern: str) -> Regex:
    """A regular expression, compiled once."""
    return Regex(pattern)


def _compile(pattern: str, *, capture: bool) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    options.never_capture = not capture
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0]
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        complaint, _, part = text.partition(": ")
        if complaint.startswith("pattern too large"):
            raise EvaluationError("error parsing regexp: expression too large") from None
        if complaint in _WHOLE:
            part = pattern
        raise _invalid(_COMPLAINTS.get(complaint, complaint), part) from None


def _invalid(complaint: str, part: str) -> EvaluationError:
    return EvaluationError(f"error parsing regexp: {complaint}: `{part}`")


def _matches_single_bytes(pattern: str) -> bool:
    r"""Does `\C` occur, outside of `\Q...\E`? RE2 takes it for one byte, Go does not know it."""
    place = pattern.find("\\")
    while place >= 0:
        escaped = pattern[place + 1 : place + 2]
        if escaped == "C":
            return True
        end = pattern.find("\\E", place) if escaped == "Q" else place
        place = pattern.find("\\", end + 2) if end >= 0 else -1
    return False


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    add = signatures.add
    add("string.charAt(int) -> string", _char_at)
    add("string.indexOf(string) -> int", str.find)
    add("string.indexOf(string, int) -> int", _index_of)
    add("string.lastIndexOf(string) -> int", str.rfind)
    add("string.lastIndexOf(string, int) -> int", _last_index_of)
    add("string.lowerAscii() -> string", lambda text: text.translate(_LOWER))
    add("string.upperAscii() -> string", lambda text: text.translate(_UPPER))
    add("string.replace(string, string) -> string", _replace)
    add("string.replace(string, string, int) -> string", _replace)
    add("string.split(string) -> list(string)", _split)
    add("string.split(string, int) -> list(string)", _split)
    add("string.substring(int) -> string", _substring)
    add("string.substring(int, int) -> string", _substring)
    add("string.trim() -> string", str.strip)
    add("list(string).join() -> string", _join)
    add("list(string).join(string) -> string", _join)
    add("string.find(string) -> string", lambda text, pattern: _regex(pattern).first(text))
    add("string.findAll(string) -> list(string)", _find_all)
    add("string.findAll(string, int) -> list(string)", _find_all)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(count, text.count(old))
    require_characters(len(text) + found * (len(new) - len(old)))
    return text.replace(old, new, found)


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int) -> int:
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def _last_index_of(text: str, part: str, end: int) -> int:
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    if not part:
        return min(end, len(text))
    return text.rfind(part, 0, end + len(part)) if end < len(text) else -1


_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}


def _split(text: str, by: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if not by:
        characters = list(text)
        if 0 < most < len(characters):
            characters[most - 1 :] = ["".join(characters[most - 1 :])]
        return characters
    return text.split(by, most - 1 if most > 0 else -1)


def _join(items: list[Any], by: str = "") -> str:
    for item in items:
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {shown(item)}")
    require_characters(sum(map(len, items)) + len(by) * len(items))
    return by.join(items)


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise EvaluationError(f"index out of range: {stop}")
    return text[start:stop]


def _regex(pattern: str) -> Regex:
    try:
        return compiled_regex(pattern)
    except EvaluationError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find_all(text: str, pattern: str, most: int = -1) -> Iterator[str]:
    """One by one, since each of many matches may take a search through the rest of the text."""
    found = islice(_regex(pattern).all(text), most if most >= 0 else None)
    return (match for match in found)
