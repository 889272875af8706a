"""The loops of an expression: what macros such as `all` and `map` make of their rounds.

Owns what can be gone through, and what a round costs besides its body: upstream builds these loops
from identifiers and calls, each of which costs something.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moorage.plugins.dynamic_resources.cel.closures import Closure, spend, truth
from moorage.plugins.dynamic_resources.cel.costs import (
    COST,
    LIST_COST,
    NEXT_CHECK,
    Frame,
    check_cost,
    compared_cost,
)
from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.list_functions import sort_by
from moorage.plugins.dynamic_resources.cel.operators import find_key
from moorage.plugins.dynamic_resources.cel.values import DomainMap, go_type

Rounds = Callable[[Frame], Iterable[Any]]


def rounds_over(target: Closure, first: int, second: int, *, pairs: bool) -> Rounds:
    """The rounds of a loop, each with its variables in their slots; gives the keys or items."""

    def rounds(frame: Frame) -> Iterable[Any]:
        for key, value in _entries(target(frame), pairs=pairs):
            if frame[COST] > frame[NEXT_CHECK]:
                check_cost(frame)
            frame[first], frame[second] = key, value
            yield key

    return rounds


def loop(
    kind: str, rounds: Rounds, body: Closure, transform: Closure | None, append_cost: int
) -> Closure:
    """The closure of a macro; with a transform, the body is the condition for it."""
    match kind:
        case "all" | "exists":
            return _quantifier(rounds, body, decisive=kind == "exists")
        case "exists_one":
            return _counter(rounds, body)
        case "filter":
            return _filter(rounds, body)
        case "sortBy":
            return _sorter(rounds, body, append_cost)
        case "transformMap" | "transformMapEntry" if transform is not None:
            return _map_builder(rounds, body, transform, entries=kind.endswith("Entry"))
        case _:
            return _list_builder(rounds, body, transform, append_cost)


def _counter(rounds: Rounds, body: Closure) -> Closure:
    def count(frame: Frame) -> bool:
        found = 0
        for _ in rounds(frame):
            if truth(body(frame)):
                found += 1
                frame[COST] += 2
        spend(frame, 2)
        return found == 1

    return count


def _filter(rounds: Rounds, body: Closure) -> Closure:
    def select(frame: Frame) -> list[Any]:
        built = []
        for item in rounds(frame):
            if truth(body(frame)):
                frame[COST] += LIST_COST + 3
                built.append(item)
        spend(frame, 1)
        return built

    return select


def _list_builder(
    rounds: Rounds, body: Closure, transform: Closure | None, append_cost: int
) -> Closure:
    def build(frame: Frame) -> list[Any]:
        built = []
        for _ in rounds(frame):
            if transform is None:
                built.append(body(frame))
            elif truth(body(frame)):
                built.append(transform(frame))
            else:
                continue
            frame[COST] += append_cost
        spend(frame, 1)
        return built

    return build


def _sorter(rounds: Rounds, body: Closure, append_cost: int) -> Closure:
    def sort(frame: Frame) -> list[Any]:
        pairs = []
        for item in rounds(frame):
            pairs.append((body(frame), item))
            frame[COST] += append_cost
        spend(frame, 3 + compared_cost([key for key, _ in pairs]))
        return sort_by(pairs)

    return sort


def _entries(container: Any, *, pairs: bool) -> Iterable[tuple[Any, Any]]:
    kind = type(container)
    if kind is list:
        return enumerate(container) if pairs else ((item, None) for item in container)
    if kind is dict or kind is DomainMap:
        return list(container.items())
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {go_type(container)}")
    raise EvaluationError(f"got '{go_type(container)}', expected iterable type")


def _map_builder(
    rounds: Rounds,
    condition: Closure,
    transform: Closure,
    *,
    entries: bool,
) -> Closure:
    """`transformMap` keeps the keys, `transformMapEntry` makes them; none may come twice."""

    def build(frame: Frame) -> dict[Any, Any]:
        built: dict[Any, Any] = {}
        for key in rounds(frame):
            if not truth(condition(frame)):
                continue
            made = transform(frame)
            frame[COST] += 2 if entries else 3
            if entries and not isinstance(made, dict):
                raise no_such_overload()
            for name, value in made.items() if entries else ((key, made),):
                if find_key(built, name) is not None:
                    raise EvaluationError(f"insert failed: key {name} already exists")
                built[name] = value
        spend(frame, 1)
        return built

    return build


def _quantifier(rounds: Rounds, body: Closure, *, decisive: bool) -> Closure:
    """`exists` and `all`: one decisive round settles it, whatever went wrong in others."""
    asking = 3 if decisive else 2  # upstream asks before each round whether it is settled

    def quantify(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        settled = False
        for _ in rounds(frame):
            frame[COST] += asking
            if settled:
                break
            frame[COST] += 1
            try:
                value: object = body(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                settled = True
            elif type(value) is not bool:
                failure = failure or no_such_overload()
        spend(frame, 1)
        if settled:
            return decisive
        if failure is not None:
            raise failure
        return not decisive

    return quantify
