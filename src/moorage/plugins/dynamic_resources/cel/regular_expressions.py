"""Regular expressions in linear time: RE2, whose syntax and results are those of Go's regexp.

Owns how patterns are compiled, Go's messages for invalid ones, and how much a single search may do.
Anybody who may create a claim writes patterns, so nothing here backtracks.
"""

from collections.abc import Iterator
from functools import lru_cache

import re2

from moorage.plugins.dynamic_resources.cel.errors import EvaluationAbortedError, EvaluationError

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
