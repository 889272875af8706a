"""How much one evaluation may cost, and how large the values that it builds may be.

Owns the limits and the error beyond them. Upstream counts costs only, but a few operations build
more than they cost, and would fill the memory here. To traverse such a value would exceed the limit
on costs, so building it counts as exceeding it.
"""

from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationAbortedError

MAX_COST = 1_000_000
"""As resource.k8s.io limits a selector."""
MAX_TEXT = 10 * MAX_COST
"""Characters; going through ten of them costs 1."""


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
