"""A checked expression turned into nested Python closures, made once and run per device.

Owns the order of evaluation, which errors are absorbed, and the limit on work. A closure takes the
frame: the values of the variables, `device` first.
"""

from collections.abc import Callable, Iterable
from typing import Any

from moorage.plugins.dynamic_resources.cel.checker import (
    TYPE_NAMES,
    qualified_function,
    type_name,
)
from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.list_functions import sort_by
from moorage.plugins.dynamic_resources.cel.operators import (
    BINARY,
    find_key,
    has_key,
    look_up,
    negate,
    optional_look_up,
)
from moorage.plugins.dynamic_resources.cel.syntax import (
    Bind,
    Call,
    Comprehension,
    Index,
    Literal,
    MakeList,
    MakeMap,
    Name,
    Node,
    OptionalMap,
    Select,
)
from moorage.plugins.dynamic_resources.cel.types import Functions, Overload
from moorage.plugins.dynamic_resources.cel.values import (
    DomainMap,
    Optional,
    TypeValue,
    kind_of,
)

MAX_STEPS = 100_000
"""Rounds of loops in one evaluation. Upstream counts every operation up to a cost of a million."""

Frame = list[Any]
Closure = Callable[[Frame], Any]
Slots = dict[str, int]
_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_STEPS = 0
"""The place in the frame that counts rounds."""


class Compiler:
    """Compiles one expression."""

    def __init__(self, functions: Functions, overloads: dict[int, list[Overload]]) -> None:
        self._functions = functions
        self._overloads = overloads
        self.frame_size = 1

    def slot(self) -> int:
        """A new place in the frame."""
        self.frame_size += 1
        return self.frame_size - 1

    def compile(self, node: Node, slots: Slots) -> Closure:
        """The closure of a node."""
        match node:
            case Literal():
                value = node.value
                return lambda frame: value
            case Name():
                return self._name(node, slots)
            case Select():
                return self._select(node, slots)
            case Index():
                operand, key = self.compile(node.operand, slots), self.compile(node.key, slots)
                look = optional_look_up if node.optional else look_up
                return lambda frame: look(operand(frame), key(frame))
            case Call():
                return self._call(node, slots)
            case MakeList():
                return self._list(node, slots)
            case MakeMap():
                return self._map(node, slots)
            case Bind():
                return self._bind(node, slots)
            case OptionalMap():
                return self._optional_map(node, slots)
            case Comprehension():
                return self._comprehension(node, slots)

    def _name(self, node: Name, slots: Slots) -> Closure:
        slot = slots.get(node.name)
        if slot is None:
            assert node.name in TYPE_NAMES, "the checker refuses unknown names"
            value = TypeValue(node.name)
            return lambda frame: value
        return lambda frame: frame[slot]

    def _select(self, node: Select, slots: Slots) -> Closure:
        qualified = type_name(node, slots.keys())
        if qualified is not None:
            type_value = TypeValue(qualified)
            return lambda frame: type_value
        operand, field = self.compile(node.operand, slots), node.field
        if node.test:
            return lambda frame: has_key(operand(frame), field)
        if node.optional:
            return lambda frame: optional_look_up(operand(frame), field)

        def select(frame: Frame) -> Any:
            container = operand(frame)
            if type(container) is dict:
                try:
                    return container[field]
                except KeyError:
                    raise EvaluationError(f"no such key: {field}") from None
            return look_up(container, field)

        return select

    def _call(self, node: Call, slots: Slots) -> Closure:
        arguments = [self.compile(argument, slots) for argument in node.arguments]
        match node.function:
            case "_&&_":
                return _connective(arguments[0], arguments[1], decisive=False)
            case "_||_":
                return _connective(arguments[0], arguments[1], decisive=True)
            case "!_":
                return _not(arguments[0])
            case "-_":
                return lambda frame: negate(arguments[0](frame))
            case "_?_:_":
                return _conditional(*arguments)
        binary = BINARY.get(node.function)
        if binary is not None:
            left, right = arguments
            return lambda frame: binary(left(frame), right(frame))
        if node.target is not None:
            qualified = qualified_function(node, slots.keys(), self._functions)
            if qualified is None:
                arguments.insert(0, self.compile(node.target, slots))
        call = _dispatch(node.function, self._overloads[id(node)], arguments)
        if node.target is None and all(isinstance(part, Literal) for part in node.arguments):
            return _folded(call, must=node.function in _CONVERSIONS)
        return call

    def _list(self, node: MakeList, slots: Slots) -> Closure:
        items = [self.compile(item, slots) for item in node.items]
        if not node.optional:
            if all(isinstance(item, Literal) for item in node.items):
                constant = [item([]) for item in items]
                return lambda frame: constant
            return lambda frame: [item(frame) for item in items]

        def build(frame: Frame) -> list[Any]:
            built = []
            for place, item in enumerate(items):
                value = item(frame)
                if place not in node.optional:
                    built.append(value)
                elif value.present:
                    built.append(value.value)
            return built

        return build

    def _map(self, node: MakeMap, slots: Slots) -> Closure:
        entries = [
            (self.compile(key, slots), self.compile(value, slots)) for key, value in node.entries
        ]

        def build(frame: Frame) -> dict[Any, Any]:
            built: dict[Any, Any] = {}
            for place, (key_part, value_part) in enumerate(entries):
                key = key_part(frame)
                if find_key(built, key) is not None:
                    raise EvaluationError(f"Failed with repeated key: {key}")
                value = value_part(frame)
                if place not in node.optional:
                    built[key] = value
                elif value.present:
                    built[key] = value.value
            return built

        return build

    def _bind(self, node: Bind, slots: Slots) -> Closure:
        value = self.compile(node.value, slots)
        slot = self.slot()
        body = self.compile(node.body, {**slots, node.name: slot})

        def bind(frame: Frame) -> Any:
            frame[slot] = value(frame)
            return body(frame)

        return bind

    def _optional_map(self, node: OptionalMap, slots: Slots) -> Closure:
        target = self.compile(node.target, slots)
        slot = self.slot()
        body = self.compile(node.body, {**slots, node.name: slot})

        def transform(frame: Frame) -> Any:
            option = target(frame)
            if type(option) is not Optional:
                raise no_such_overload()
            if not option.present:
                return option
            frame[slot] = option.value
            result = body(frame)
            return result if node.flat else Optional(True, result)

        return transform

    def _comprehension(self, node: Comprehension, slots: Slots) -> Closure:
        target = self.compile(node.target, slots)
        first, second = self.slot(), self.slot()
        inner = {**slots, node.name: first}
        if node.second is not None:
            inner[node.second] = second
        body = self.compile(node.body, inner)
        transform = self.compile(node.transform, inner) if node.transform is not None else None
        pairs = node.second is not None

        def rounds(frame: Frame) -> Iterable[Any]:
            for key, value in _pairs(target(frame), pairs=pairs):
                frame[_STEPS] += 1
                if frame[_STEPS] > MAX_STEPS:
                    raise EvaluationError("operation cancelled: actual cost limit exceeded")
                frame[first], frame[second] = key, value
                yield key

        match node.kind:
            case "all" | "exists":
                return _quantifier(rounds, body, decisive=node.kind == "exists")
            case "exists_one":
                return lambda frame: sum(body(frame) is True for _ in rounds(frame)) == 1
            case "filter":
                return lambda frame: [item for item in rounds(frame) if _true(body(frame))]
            case "sortBy":
                return lambda frame: sort_by([(body(frame), item) for item in rounds(frame)])
            case "transformMap" | "transformMapEntry" if transform is not None:
                return _map_builder(rounds, body, transform, entries=node.kind.endswith("Entry"))
            case _:
                if transform is None:
                    return lambda frame: [body(frame) for _ in rounds(frame)]
                mapped = transform
                return lambda frame: [mapped(frame) for _ in rounds(frame) if _true(body(frame))]


def _pairs(container: Any, *, pairs: bool) -> Iterable[tuple[Any, Any]]:
    kind = type(container)
    if kind is list:
        return enumerate(container) if pairs else ((item, None) for item in container)
    if kind is dict or kind is DomainMap:
        return list(container.items())
    name = {"int": "Int", "bool": "Bool", "string": "String", "double": "Double", "uint": "Uint"}
    shown = name.get(kind_of(container))
    type_name = f"types.{shown}" if shown else f"cel.{kind.__name__}"
    raise EvaluationError(f"got '{type_name}', expected iterable type")


def _map_builder(
    rounds: Callable[[Frame], Iterable[Any]],
    condition: Closure,
    transform: Closure,
    *,
    entries: bool,
) -> Closure:
    """`transformMap` keeps the keys, `transformMapEntry` makes them; none may come twice."""

    def build(frame: Frame) -> dict[Any, Any]:
        built: dict[Any, Any] = {}
        for key in rounds(frame):
            if not _true(condition(frame)):
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


def _true(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise no_such_overload()


def _quantifier(
    rounds: Callable[[Frame], Iterable[Any]], body: Closure, *, decisive: bool
) -> Closure:
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


def _connective(left: Closure, right: Closure, *, decisive: bool) -> Closure:
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


def _not(operand: Closure) -> Closure:
    return lambda frame: not _true(operand(frame))


def _conditional(condition: Closure, chosen: Closure, other: Closure) -> Closure:
    return lambda frame: chosen(frame) if _true(condition(frame)) else other(frame)


def _dispatch(function: str, overloads: list[Overload], arguments: list[Closure]) -> Closure:
    """Choose among the overloads by the values; upstream names the only one in its complaint."""
    name = overloads[0].identifier if len(overloads) == 1 else function
    chosen: dict[tuple[type, ...], Callable[..., Any] | None] = {}

    def call(frame: Frame) -> Any:
        values = [argument(frame) for argument in arguments]
        classes = tuple(map(type, values))
        implementation = chosen.get(classes)
        if implementation is None:
            kinds = tuple(map(kind_of, values))
            fitting = next((o for o in overloads if o.accepts(kinds)), None)
            if fitting is None or fitting.implementation is None:
                raise no_such_overload(name, *kinds)
            implementation = chosen[classes] = fitting.implementation
        return implementation(*values)

    return call


def _folded(call: Closure, *, must: bool) -> Closure:
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
