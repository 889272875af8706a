"""The closures that evaluate an expression: operators, calls, and the loops of macros.

Owns which parts are evaluated and in which order, which errors are absorbed on the way, how a call
finds its overload, and what a round of a loop costs besides its body: upstream builds loops from
identifiers and calls, each of which costs something.
"""

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from moorage.cel.costs import (
    CHECKPOINT,
    COST,
    NEXT_CHECK,
    CallCost,
    Frame,
    call_cost,
    check_cost,
    compared_cost,
    new_frame,
)
from moorage.cel.errors import EvaluationError, no_such_overload
from moorage.cel.lists import sort_by
from moorage.cel.operators import find_key
from moorage.cel.strings import compiled_regex
from moorage.cel.types import Overload, Type, is_parameter
from moorage.cel.values import DefaultMap, Optional, go_type, kind_of

Closure = Callable[[Frame], Any]
_BETWEEN_CHECKPOINTS = 16
_PENDING = object()
"""In the place of a variable whose value nobody has asked for yet."""


def truth(value: Any) -> bool:
    """A condition's value; nothing but a boolean will do."""
    if value is True or value is False:
        return bool(value)
    raise no_such_overload()


def connective(left: Closure, right: Closure, *, decisive: bool) -> Closure:
    """`&&` and `||`: a decisive side settles it, even if the other one fails."""
    neutral = not decisive

    def connect(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        try:
            value: object = left(frame)
            if value is decisive:
                return decisive
            if value is not neutral:
                failure = no_such_overload()
        except EvaluationError as error:
            failure = error
        try:
            value = right(frame)
        except EvaluationError as error:
            raise failure or error from None
        if value is decisive:
            return decisive
        if failure is not None:
            raise failure
        if value is not neutral:
            raise no_such_overload()
        return neutral

    return connect


def negation(operand: Closure) -> Closure:
    """`!operand`."""

    def negate(frame: Frame) -> bool:
        value = operand(frame)
        frame[COST] += 1
        return not truth(value)

    return negate


def conditional(
    condition: Closure, chosen: Closure, other: Closure, rebates: tuple[int, int]
) -> Closure:
    """`condition ? chosen : other`; a variable costs less there, by the rebate of its branch."""

    def choose(frame: Frame) -> Any:
        if truth(condition(frame)):
            frame[COST] -= rebates[0]
            return chosen(frame)
        frame[COST] -= rebates[1]
        return other(frame)

    return choose


def alternative(option: Closure, other: Closure, *, unwrap: bool) -> Closure:
    """`option.or(other)` and, unwrapped, `option.orValue(other)`."""

    def choose(frame: Frame) -> Any:
        value = option(frame)
        if type(value) is not Optional:
            raise no_such_overload()
        if not value.present:
            return other(frame)
        return value.value if unwrap else value

    return choose


def binding(slot: int, body: Closure) -> Closure:
    """`cel.bind`: the variable waits in its slot until `bound` is asked for it."""

    def bind(frame: Frame) -> Any:
        frame[slot] = _PENDING
        return body(frame)

    return bind


def bound(slot: int, value: Closure) -> Closure:
    """A variable of `cel.bind`: worked out when it is first used, then kept, as is a failure."""

    def read(frame: Frame) -> Any:
        frame[COST] += 1
        known = frame[slot]
        if known is _PENDING:
            try:
                known = value(frame)
            except EvaluationError as error:
                known = error
            frame[slot] = known
        if isinstance(known, EvaluationError):
            raise known
        return known

    return read


def matching(text: Closure, pattern: str, cost: CallCost) -> Closure:
    """`text.matches(pattern)` with a pattern that is written out."""
    regex = compiled_regex(pattern)

    def match(frame: Frame) -> bool:
        value = text(frame)
        spend(frame, cost((value, pattern), None))
        if type(value) is not str:
            raise no_such_overload()
        return regex.found_in(value)

    return match


def dispatch(function: str, overloads: list[Overload], arguments: list[Closure]) -> Closure:
    """Choose among the overloads by the values."""
    chosen: dict[tuple[object, ...], Callable[..., Any] | None] = {}
    cost = call_cost(function, overloads)

    def call(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        shapes: tuple[object, ...] = tuple(map(type, values))
        if list in shapes:
            shapes = tuple(map(_shape, values))
        implementation = chosen.get(shapes)
        if implementation is None:
            fitting = next((o for o in overloads if _accepts(o, values)), None)
            if fitting is None or fitting.implementation is None:
                raise no_such_overload(function, *map(kind_of, values))
            implementation = chosen[shapes] = fitting.implementation
        result = implementation(*values)
        if type(result) is GeneratorType:
            result = _gathered(result, frame)
        spend(frame, cost(values, result))
        return result

    return call


def _accepts(overload: Overload, values: list[Any]) -> bool:
    """Is the function made for these values?"""
    wanted = overload.arguments
    return not overload.guarded or (len(values) == len(wanted) and all(map(_fits, wanted, values)))


def _fits(wanted: Type, value: Any) -> bool:
    """Upstream takes a list for what its first item is."""
    if wanted.unknown or is_parameter(wanted):
        return True
    if wanted.name != kind_of(value):
        return False
    return wanted.name != "list" or not value or _fits(wanted.parameters[0], value[0])


def _gathered(items: Iterator[Any], frame: Frame) -> list[Any]:
    """A list whose items may take long to find, with checkpoints in between."""
    gathered = []
    for item in items:
        gathered.append(item)
        if len(gathered) % _BETWEEN_CHECKPOINTS == 0:
            frame[CHECKPOINT]()
    return gathered


def spend(frame: Frame, cost: int) -> None:
    """Count a cost that may be large."""
    frame[COST] += cost
    if frame[COST] > frame[NEXT_CHECK]:
        check_cost(frame)


def _shape(value: Any) -> object:
    """What an overload is chosen by: the type, and for a list that of its first item."""
    kind = type(value)
    if kind is not list:
        return kind
    return (list, _shape(value[0])) if value else list


def folded(call: Closure, *, must: bool) -> Closure:
    """A call of constants, such as `quantity("40Gi")`, done once.

    A failure waits for its turn, except in CEL's own conversions: upstream does those when it makes
    the program, and then there is none.
    """
    trial = new_frame()
    try:
        value = call(trial)
    except EvaluationError:
        if must:
            raise
        return call
    if must:
        return lambda frame: value
    cost: int = trial[COST]

    def read(frame: Frame) -> Any:
        spend(frame, cost)
        return value

    return read


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
    if kind is dict or kind is DefaultMap:
        return list(container.items())
    if pairs:
        raise EvaluationError(f"unsupported comprehension range type: {go_type(container)}")
    raise EvaluationError(f"got '{go_type(container)}', expected iterable type")


def _map_builder(
    rounds: Rounds, condition: Closure, transform: Closure, *, entries: bool
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
