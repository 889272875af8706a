"""The loops of an expression: what macros such as `all` and `map` make of their rounds.

Owns what can be gone through and the limit on rounds.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moorage.plugins.dynamic_resources.cel.closures import STEPS, Closure, Frame, truth
from moorage.plugins.dynamic_resources.cel.errors import (
    EvaluationAbortedError,
    EvaluationError,
    no_such_overload,
)
from moorage.plugins.dynamic_resources.cel.list_functions import sort_by
from moorage.plugins.dynamic_resources.cel.operators import find_key
from moorage.plugins.dynamic_resources.cel.values import DomainMap, go_type

MAX_STEPS = 100_000
"""Rounds of loops in one evaluation. Upstream counts every operation up to a cost of a million."""

Rounds = Callable[[Frame], Iterable[Any]]


def rounds_over(target: Closure, first: int, second: int, *, pairs: bool) -> Rounds:
    """The rounds of a loop, each with its variables in their slots; gives the keys or items."""

    def rounds(frame: Frame) -> Iterable[Any]:
        for key, value in _entries(target(frame), pairs=pairs):
            frame[STEPS] += 1
            if frame[STEPS] > MAX_STEPS:
                raise EvaluationAbortedError("operation cancelled: actual cost limit exceeded")
            frame[first], frame[second] = key, value
            yield key

    return rounds


def loop(kind: str, rounds: Rounds, body: Closure, transform: Closure | None) -> Closure:
    """The closure of a macro; with a transform, the body is the condition for it."""
    match kind:
        case "all" | "exists":
            return _quantifier(rounds, body, decisive=kind == "exists")
        case "exists_one":
            return lambda frame: sum(truth(body(frame)) for _ in rounds(frame)) == 1
        case "filter":
            return lambda frame: [item for item in rounds(frame) if truth(body(frame))]
        case "sortBy":
            return lambda frame: sort_by([(body(frame), item) for item in rounds(frame)])
        case "transformMap" | "transformMapEntry" if transform is not None:
            return _map_builder(rounds, body, transform, entries=kind.endswith("Entry"))
        case _:
            if transform is None:
                return lambda frame: [body(frame) for _ in rounds(frame)]
            mapped = transform
            return lambda frame: [mapped(frame) for _ in rounds(frame) if truth(body(frame))]


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
            if entries and not isinstance(made, dict):
                raise no_such_overload()
            for name, value in made.items() if entries else ((key, made),):
                if find_key(built, name) is not None:
                    raise EvaluationError(f"insert failed: key {name} already exists")
                built[name] = value
        return built

    return build


def _quantifier(rounds: Rounds, body: Closure, *, decisive: bool) -> Closure:
    """`exists` and `all`: one decisive round settles it, whatever went wrong in others."""

    def quantify(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        for _ in rounds(frame):
            try:
                value: object = body(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is decisive:
                return decisive
            if type(value) is not bool:
                failure = failure or no_such_overload()
        if failure is not None:
            raise failure
        return not decisive

    return quantify
