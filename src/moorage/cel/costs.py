"""What an evaluation costs, counted as Kubernetes counts it, and the limit at which it ends.

Owns the cost of calls. What an identifier, a list or a round of a loop costs is with the closures
that evaluate them. Costs are sums of small numbers in the frame (`COST`); code that adds a large
cost, or many, calls `check_cost` once `NEXT_CHECK` is passed.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from moorage.cel.errors import MAX_COST, exceeded, require_tree
from moorage.cel.network import ADDRESSES, NETWORKS
from moorage.cel.types import Overload
from moorage.cel.values import PARTICULAR, DefaultMap, Optional

Frame = list[Any]
Checkpoint = Callable[[], None]
CallCost = Callable[[Sequence[Any], Any], int]
"""From the arguments and the result."""

COST, NEXT_CHECK, CHECKPOINT, LIMIT = 0, 1, 2, 3
"""Places in a frame: the cost so far, that at which to check next, what to call then, the limit."""
FRAME_START = 4
CHECK_EVERY = 2_000
"""About a millisecond."""

LIST_COST, MAP_COST = 10, 30
_TRAVERSAL, _PATTERN = 0.1, 0.25
_SIZED = (str, bytes, list, dict, DefaultMap)


def no_checkpoint() -> None:
    """For evaluations that need not let anything else run."""


def new_frame(
    size: int = FRAME_START, limit: int = MAX_COST, checkpoint: Checkpoint = no_checkpoint
) -> Frame:
    """The frame of one evaluation."""
    frame: Frame = [0] * size
    frame[NEXT_CHECK] = min(CHECK_EVERY, limit)
    frame[CHECKPOINT] = checkpoint
    frame[LIMIT] = limit
    return frame


def check_cost(frame: Frame) -> None:
    """End the evaluation if it costs too much; otherwise call the checkpoint."""
    if frame[COST] > frame[LIMIT]:
        raise exceeded()
    frame[NEXT_CHECK] = min(frame[COST] + CHECK_EVERY, frame[LIMIT])
    frame[CHECKPOINT]()


def size_of(value: Any) -> int:
    """How many items, characters or bytes a value has; 1 for all others."""
    if type(value) in _SIZED:
        return len(value)
    if type(value) in ADDRESSES:
        return len(value.packed)
    if type(value) in NETWORKS:
        bits: int = value.network.prefixlen
        return -(-bits // 8)
    return 1


def call_cost(function: str, overloads: Sequence[Overload]) -> CallCost:
    """The cost of a call; some depend on the types of its arguments, if these are settled."""
    kinds = [kind.name for kind in overloads[0].arguments] if len(overloads) == 1 else []
    textual = kinds[:1] in (["string"], ["bytes"])
    text = kinds[-1:] == ["string"]
    match function:
        case "_+_":
            return _sum if textual else _one
        case "_<_" | "_<=_" | "_>_" | "_>=_":
            return _smaller if textual else _one
        case "@in":
            return _second_size if kinds[-1:] == ["list"] else _one
        case "ip":
            return _one if overloads[0].member else _traversal
        case "string" | "bytes":
            return _traversal if textual and kinds != [function] else _one
        case "sort":
            return _compared if kinds else _one
        case "containsIP":
            return lambda values, result: _contains_ip(values, text=text)
        case "containsCIDR":
            return lambda values, result: _contains_cidr(values, text=text)
    return _COSTS.get(function, _one)


def compared_cost(keys: list[Any]) -> int:
    """The cost of sorting by keys, or of removing duplicates."""
    factor = 2.0
    if keys and type(keys[0]) in (str, bytes):
        factor += _TRAVERSAL
    return int(float(len(keys) ** 2) * factor) + 1 + LIST_COST


def _one(values: Sequence[Any], result: Any) -> int:
    return 1


def _traversal(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size_of(values[0])) * _TRAVERSAL)


def _affix(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size_of(values[1])) * _TRAVERSAL)


def _twice(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size_of(values[0])) * 2 * _TRAVERSAL)


def _result_twice(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size_of(result)) * 2 * _TRAVERSAL)


def _second_size(values: Sequence[Any], result: Any) -> int:
    return size_of(values[1])


def _within(value: Any) -> int:
    return _within(value.value) if type(value) is Optional and value.present else size_of(value)


def _smaller(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(min(_within(values[0]), _within(values[1]))) * _TRAVERSAL)


def _equality(values: Sequence[Any], result: Any) -> int:
    return 1 if type(values[0]) in PARTICULAR else _smaller(values, result)


def _sum(values: Sequence[Any], result: Any) -> int:
    return math.ceil(float(size_of(values[0]) + size_of(values[1])) * _TRAVERSAL)


def _pattern(values: Sequence[Any], result: Any) -> int:
    text = math.ceil((1.0 + float(size_of(values[0]))) * _TRAVERSAL)
    return text * math.ceil(float(size_of(values[1])) * _PATTERN)


def _contains(values: Sequence[Any], result: Any) -> int:
    text = math.ceil(float(size_of(values[0])) * _TRAVERSAL)
    return text * math.ceil(float(size_of(values[1])) * _TRAVERSAL)


def _validate(values: Sequence[Any], result: Any) -> int:
    text = math.ceil((1.0 + float(size_of(values[1]))) * _TRAVERSAL)
    return text * math.ceil(float(values[0].pattern_size) * _PATTERN)


def _tree(values: Sequence[Any], result: Any) -> int:
    require_tree(values[0])
    return _traversed(values[0])


def _traversed(value: Any) -> int:
    if type(value) is str:
        return int(float(len(value.encode())) * _TRAVERSAL)
    if type(value) is bytes:
        return int(float(len(value)) * _TRAVERSAL)
    if type(value) is list:
        return sum(map(_traversed, value))
    if isinstance(value, dict):
        return sum(_traversed(key) + _traversed(item) for key, item in value.items())
    return 1


def _made_list(values: Sequence[Any], result: Any) -> int:
    return size_of(result) + 1 + LIST_COST


def _flattened(values: Sequence[Any], result: Any) -> int:
    depth = float(values[1]) if len(values) == 2 else 1.0
    return int(float(size_of(values[0])) * depth) + 1 + LIST_COST


def _compared(values: Sequence[Any], result: Any) -> int:
    return compared_cost(values[0])


def _sets(factor: float) -> CallCost:
    return lambda values, result: 1 + int(float(size_of(values[0]) * size_of(values[1])) * factor)


def _contains_ip(values: Sequence[Any], *, text: bool) -> int:
    cost = math.ceil(float(2 * size_of(values[0])) * _TRAVERSAL)
    return cost + (math.ceil(float(size_of(values[1])) * _TRAVERSAL) if text else 0)


def _contains_cidr(values: Sequence[Any], *, text: bool) -> int:
    return _contains_ip(values, text=text) + math.ceil(float(size_of(values[0])) * _TRAVERSAL) + 1


_COSTS: dict[str, CallCost] = {
    **dict.fromkeys(("_==_", "equals"), _equality),
    "_!=_": _smaller,
    **dict.fromkeys(("startsWith", "endsWith"), _affix),
    "format": _traversal,
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim"), _traversal),
    **dict.fromkeys(("cidr", "isIP", "isCIDR"), _traversal),
    **dict.fromkeys(("quantity", "isQuantity", "semver", "isSemver"), _traversal),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _twice),
    "join": _result_twice,
    **dict.fromkeys(("find", "findAll", "matches"), _pattern),
    "contains": _contains,
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _tree),
    "validate": _validate,
    **dict.fromkeys(("slice", "lists.range", "reverse"), _made_list),
    "flatten": _flattened,
    "distinct": _compared,
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
"""By function; what is not listed costs 1."""
