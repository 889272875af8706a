"""Functions on lists: those of Kubernetes, CEL's list extensions, and sets."""

from functools import partial, reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any

from moorage.cel.errors import (
    EvaluationAbortedError,
    EvaluationError,
    no_such_overload,
    require_items,
    require_tree,
)
from moorage.cel.operators import add as plus
from moorage.cel.operators import contained
from moorage.cel.types import Signatures, parse_type
from moorage.cel.values import Uint, compare, go_type, incapable, kind_of, surely_equal
from moorage.model.duration import Duration

_LONGEST_RANGE = 1_000_000

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp")
_SUMMED = ("int", "uint", "double", "duration")
_ZEROS = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_COMPARABLE = frozenset(parse_type(kind).name for kind in _ORDERED)
_ADDABLE = _COMPARABLE - {"bool"}


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    add = signatures.add
    for kind in _ORDERED:
        add(f"list({kind}).isSorted() -> bool", _is_sorted)
        add(f"list({kind}).min() -> {kind}", partial(_extreme, "min"))
        add(f"list({kind}).max() -> {kind}", partial(_extreme, "max"))
        add(f"list({kind}).sort() -> list({kind})", _sorted, guarded=False)
    for kind in _SUMMED:
        add(f"list({kind}).sum() -> {kind}", partial(_sum, _ZEROS[kind]))
    add("list(A).indexOf(A) -> int", _index_of)
    add("list(A).lastIndexOf(A) -> int", _last_index_of)
    add("list(A).slice(int, int) -> list(A)", _slice)
    add("list(list(A)).flatten() -> list(A)", _flattened, guarded=False)
    add("list(dyn).flatten(int) -> list(dyn)", _flattened, guarded=False)
    add("list(A).distinct() -> list(A)", _distinct, guarded=False)
    add("list(A).reverse() -> list(A)", lambda items: items[::-1])
    add("@lists.range(int) -> list(int)", _range)
    add("@sets.contains(list(A), list(A)) -> bool", _contains_all)
    add(
        "@sets.equivalent(list(A), list(A)) -> bool",
        lambda left, right: _contains_all(left, right) and _contains_all(right, left),
    )
    add(
        "@sets.intersects(list(A), list(A)) -> bool",
        lambda left, right: any(contained(item, right) for item in left),
    )


def _range(count: int) -> list[int]:
    if count < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {count}")
    if count > _LONGEST_RANGE:
        limit = f"exceeds maximum allowed ({_LONGEST_RANGE})"
        raise EvaluationError(f"lists.range: size {count} {limit}")
    require_items(count)
    return list(range(count))


def _is_sorted(items: list[Any]) -> bool:
    return not any(_greater(one, other) for one, other in pairwise(_comparable(items)))


def _extreme(name: str, items: list[Any]) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best, *others = _comparable(items)
    for item in others:
        if _greater(best, item) if name == "min" else _greater(item, best):
            best = item
    return best


def _comparable(items: list[Any]) -> list[Any]:
    if any(kind_of(item) not in _COMPARABLE for item in items):
        raise no_such_overload()
    return items


def _greater(one: Any, other: Any) -> bool:
    """Upstream takes values that cannot be compared with each other as they come."""
    try:
        return compare("compare", one, other) > 0
    except EvaluationError:
        return False


def _sorted(items: Any) -> list[Any]:
    if type(items) is not list:
        raise incapable("sort", items)
    return sort_by([(item, item) for item in items])


def sort_by(pairs: list[tuple[Any, Any]]) -> list[Any]:
    """The second parts in the order of the first ones, the keys."""
    if not pairs:
        return []
    if kind_of(pairs[0][0]) not in _COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if len({kind_of(key) for key, _ in pairs}) > 1:
        raise EvaluationError("list elements must have the same type")
    return [item for _, item in sorted(pairs, key=itemgetter(0))]


def _sum(zero: Any, items: list[Any]) -> Any:
    return reduce(plus, items, zero)


def _index_of(items: list[Any], item: Any) -> int:
    return next((i for i, other in enumerate(items) if surely_equal(other, item)), -1)


def _last_index_of(items: list[Any], item: Any) -> int:
    found = _index_of(items[::-1], item)
    return -1 if found < 0 else len(items) - 1 - found


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _flattened(items: Any, *levels: Any) -> list[Any]:
    for level in levels:
        if type(level) is not int:
            raise _misjudged(f"ref.Val is {go_type(level)}, not types.Int")
    if type(items) is not list:
        given = ", ".join(map(kind_of, levels))
        raise EvaluationError(f"no such overload: {kind_of(items)}.flatten({given})")
    require_tree(items)
    return _flatten(items, *levels)


def _misjudged(text: str) -> EvaluationAbortedError:
    """Upstream stumbles over such a value while it counts the cost of the call."""
    return EvaluationAbortedError(f"internal error: interface conversion: {text}")


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _distinct(items: Any) -> list[Any]:
    if type(items) is not list:
        missing = "Contains" if kind_of(items) in _ADDABLE else "Add"
        raise _misjudged(f"{go_type(items)} is not traits.Lister: missing method {missing}")
    found: list[Any] = []
    for item in items:
        if not contained(item, found):
            found.append(item)
    return found


def _contains_all(container: list[Any], items: list[Any]) -> bool:
    return all(contained(item, container) for item in items)
