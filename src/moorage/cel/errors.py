"""What can go wrong with an expression: it does not compile, it fails, or it costs too much.

Owns the errors, how cel-go prints positions, and how large the values that an evaluation builds may
be. Kubernetes counts costs only, but a few operations build more than they cost and would fill the
memory here. To traverse such a value would exceed the limit on costs, so building it counts as
exceeding it.
"""

from collections.abc import Callable, Iterable
from typing import Any

MAX_COST = 1_000_000
"""As resource.k8s.io limits a selector, and the limit where no other is given."""
MAX_TEXT = 10 * MAX_COST
"""Characters; going through ten of them costs 1."""
_WIDE_DOT = "\uff0e"
_WIDE_MARK = "\uff3e"
"""What points to a letter beyond ASCII is as wide as that may be."""


class CompileError(Exception):
    """The expression cannot be used at all; the text is what cel-go's compiler would say."""

    def __init__(self, message: str, issues: "tuple[Issue, ...]" = ()) -> None:
        super().__init__(message)
        self.issues = issues
        """What is wrong, and where; empty if no single place is to blame."""


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


def not_convertible(kind: str) -> EvaluationError:
    """A text does not stand for a value of a type."""
    return EvaluationError(f"type conversion error from 'string' to '{kind}'")


def succeeds(convert: Callable[..., object]) -> Callable[..., bool]:
    """A test whether a conversion works."""

    def test(*arguments: object) -> bool:
        try:
            convert(*arguments)
        except EvaluationError:
            return False
        return True

    return test


def exceeded() -> EvaluationAbortedError:
    """A limit is reached."""
    return EvaluationAbortedError("operation cancelled: actual cost limit exceeded")


def require_items(count: int) -> None:
    """A list may have so many items, or a value so many parts."""
    if count > MAX_COST:
        raise exceeded()


def require_characters(count: int) -> None:
    """A text may be so long."""
    if count > MAX_TEXT:
        raise exceeded()


def require_tree(value: Any) -> None:
    """A value may have so many parts, where shared ones count as often as they occur."""
    require_items(_parts(value, {}))


def _parts(value: Any, known: dict[int, int]) -> int:
    if isinstance(value, list):
        inner = value
    elif isinstance(value, dict):
        inner = [*value.values()]
    else:
        return 1
    found = known.get(id(value))
    if found is None:
        found = known[id(value)] = 1 + sum(_parts(part, known) for part in inner)
    return found
