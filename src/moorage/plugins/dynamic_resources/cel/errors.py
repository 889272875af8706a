"""What can go wrong with a CEL expression: it does not compile, or it fails on a device."""

from collections.abc import Iterable

_WIDE_DOT = "\uff0e"
_WIDE_MARK = "\uff3e"
"""What points to a letter beyond ASCII is as wide as that may be."""


class CompileError(Exception):
    """The expression cannot be used at all; the text is what upstream's compiler would say."""


class EvaluationError(Exception):
    """The expression failed for one input; `||`, `&&` and quantifiers may absorb it."""


class EvaluationAbortedError(Exception):
    """Evaluation cannot go on; unlike an `EvaluationError`, nothing absorbs it."""


class Issue(Exception):  # noqa: N818  # cel-go's word for it
    """One complaint about a place in an expression."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position
        self.message = message


def report(source: str, issues: Iterable[Issue]) -> str:
    """The complaints as cel-go prints them: place, text, and a pointer into the line."""
    lines = source.replace("\t", " ").split("\n")
    shown = []
    for issue in sorted(issues, key=lambda issue: issue.position):
        before = source[: issue.position]
        row = before.count("\n")
        column = issue.position - (before.rfind("\n") + 1)
        text = f"ERROR: <input>:{row + 1}:{column + 1}: {issue.message}"
        dots = "".join("." if letter.isascii() else _WIDE_DOT for letter in lines[row][:column])
        mark = "^" if lines[row][column : column + 1].isascii() else _WIDE_MARK
        shown.append(f"{text}\n | {lines[row]}\n | {dots}{mark}")
    return "\n".join(shown)


def no_such_overload(function: str = "", *kinds: str) -> EvaluationError:
    """A function was applied to values it is not made for."""
    if not function:
        return EvaluationError("no such overload")
    return EvaluationError(f"no such overload: {function}({', '.join(kinds)})")
