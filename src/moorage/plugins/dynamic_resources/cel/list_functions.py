"""Functions on lists: those of Kubernetes, CEL's list extensions, and sets."""

from itertools import pairwise
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.operators import add as plus
from moorage.plugins.dynamic_resources.cel.types import Signatures
from moorage.plugins.dynamic_resources.cel.values import compare, equals

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes")
_SUMMED = ("int", "uint", "double")


def declare(signatures: Signatures) -> None:
    """Their signatures."""
    add = signatures.add
    for kind in _ORDERED:
        add(f"list_{kind}_is_sorted_bool", f"list({kind}).isSorted() -> bool", _is_sorted)
        add(f"list_{kind}_min_{kind}", f"list({kind}).min() -> {kind}", _min)
        add(f"list_{kind}_max_{kind}", f"list({kind}).max() -> {kind}", _max)
        add(f"list_{kind}_sort", f"list({kind}).sort() -> list({kind})", _sorted)
    for kind in _SUMMED:
        add(f"list_{kind}_sum_{kind}", f"list({kind}).sum() -> {kind}", _sum)
    add("list_a_index_of_int", "list(A).indexOf(A) -> int", _index_of)
    add("list_a_last_index_of_int", "list(A).lastIndexOf(A) -> int", _last_index_of)
    add("list_slice", "list(A).slice(int, int) -> list(A)", _slice)
    add("list_flatten", "list(list(A)).flatten() -> list(A)", _flatten)
    add("list_distinct", "list(A).distinct() -> list(A)", _distinct)
    add("list_reverse", "list(A).reverse() -> list(A)", lambda items: items[::-1])
    add("lists_range", "@lists.range(int) -> list(int)", lambda count: list(range(count)))
    add("list_sets_contains_list", "@sets.contains(list(A), list(A)) -> bool", _contains_all)
    add(
        "list_sets_equivalent_list",
        "@sets.equivalent(list(A), list(A)) -> bool",
        lambda left, right: _contains_all(left, right) and _contains_all(right, left),
    )
    add(
        "list_sets_intersects_list",
        "@sets.intersects(list(A), list(A)) -> bool",
        lambda left, right: any(_index_of(left, item) >= 0 for item in right),
    )


def _is_sorted(items: list[Any]) -> bool:
    return all(compare("isSorted", one, other) <= 0 for one, other in pairwise(items))


def _min(items: list[Any]) -> Any:
    return _extreme(items, "min", -1)


def _max(items: list[Any]) -> Any:
    return _extreme(items, "max", 1)


def _extreme(items: list[Any], name: str, sign: int) -> Any:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        if compare(name, item, best) == sign:
            best = item
    return best


def _sorted(items: list[Any]) -> list[Any]:
    for one, other in pairwise(items):
        compare("sort", one, other)
    return sorted(items)


def _sum(items: list[Any]) -> Any:
    total: Any = None
    for item in items:
        total = item if total is None else plus(total, item)
    return 0 if total is None else total


def _index_of(items: list[Any], item: Any) -> int:
    return next((i for i, other in enumerate(items) if equals(item, other)), -1)


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


def _flatten(items: list[Any]) -> list[Any]:
    flat: list[Any] = []
    for item in items:
        if isinstance(item, list):
            flat += item
        else:
            flat.append(item)
    return flat


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if _index_of(found, item) < 0:
            found.append(item)
    return found


def _contains_all(container: list[Any], items: list[Any]) -> bool:
    return all(_index_of(container, item) >= 0 for item in items)
