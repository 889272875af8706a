"""Closures that decide which parts of an expression are evaluated, and in which order.

Owns what is short-circuited or put off, which errors are absorbed on the way, and how a call finds
its overload.
"""

from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from moorage.plugins.dynamic_resources.cel.costs import (
    CHECKPOINT,
    COST,
    NEXT_CHECK,
    CallCost,
    Frame,
    call_cost,
    check_cost,
    new_frame,
)
from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.regular_expressions import compiled_regex
from moorage.plugins.dynamic_resources.cel.types import Overload
from moorage.plugins.dynamic_resources.cel.values import Optional, kind_of

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
    """`option.or(other)` and, unwrapped, `option.orValue(other)`; what is no optional stays."""

    def choose(frame: Frame) -> Any:
        value = option(frame)
        if type(value) is not Optional:
            return value
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
            fitting = next((o for o in overloads if o.accepts(values)), None)
            if fitting is None or fitting.implementation is None:
                raise no_such_overload(function, *map(kind_of, values))
            implementation = chosen[shapes] = fitting.implementation
        result = implementation(*values)
        if type(result) is GeneratorType:
            result = _gathered(result, frame)
        spend(frame, cost(values, result))
        return result

    return call


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
