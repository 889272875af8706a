"""Closures that decide which parts of an expression are evaluated, and in which order.

Owns what is short-circuited or put off, which errors are absorbed on the way, and how a call finds
its overload.
"""

import re
from collections.abc import Callable
from typing import Any

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.types import Overload
from moorage.plugins.dynamic_resources.cel.values import Optional, kind_of

Frame = list[Any]
Closure = Callable[[Frame], Any]
STEPS = 0
"""The place in the frame that counts rounds."""
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
    return lambda frame: not truth(operand(frame))


def conditional(condition: Closure, chosen: Closure, other: Closure) -> Closure:
    """`condition ? chosen : other`."""
    return lambda frame: chosen(frame) if truth(condition(frame)) else other(frame)


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


def matching(text: Closure, pattern: re.Pattern[str]) -> Closure:
    """`text.matches(pattern)` with a pattern that is written out."""

    def match(frame: Frame) -> bool:
        value = text(frame)
        if type(value) is not str:
            raise no_such_overload()
        return pattern.search(value) is not None

    return match


def dispatch(function: str, overloads: list[Overload], arguments: list[Closure]) -> Closure:
    """Choose among the overloads by the values."""
    chosen: dict[tuple[object, ...], Callable[..., Any] | None] = {}

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
        return implementation(*values)

    return call


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
    try:
        value = call([])
    except EvaluationError:
        if must:
            raise
        return call
    return lambda frame: value
