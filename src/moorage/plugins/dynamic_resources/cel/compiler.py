"""A checked expression turned into nested Python closures, made once and run per device.

Owns what each part of an expression becomes and where its variables are kept. A closure takes the
frame: the values of the variables, `device` first.
"""

from typing import Any

from moorage.plugins.dynamic_resources.cel.checker import (
    TYPE_NAMES,
    qualified_function,
    type_name,
)
from moorage.plugins.dynamic_resources.cel.closures import (
    Closure,
    Frame,
    alternative,
    binding,
    bound,
    conditional,
    connective,
    dispatch,
    folded,
    matching,
    negation,
)
from moorage.plugins.dynamic_resources.cel.comprehensions import loop, rounds_over
from moorage.plugins.dynamic_resources.cel.errors import EvaluationError, no_such_overload
from moorage.plugins.dynamic_resources.cel.functions import compiled_regex
from moorage.plugins.dynamic_resources.cel.operators import (
    BINARY,
    has_key,
    hashed_in,
    look_up,
    negate,
    optional_look_up,
    require_qualifier,
    shown,
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
    Optional,
    TypeValue,
    Uint,
    kind_of,
)

Slots = dict[str, int]
_CONVERSIONS = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_PRIMITIVE = (bool, int, Uint, float, str)


class Compiler:
    """Compiles one expression."""

    def __init__(self, functions: Functions, overloads: dict[int, list[Overload]]) -> None:
        self._functions = functions
        self._overloads = overloads
        self._bound: dict[int, Closure] = {}
        """By the slot of a variable of `cel.bind`: its value."""
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
                if _constant(node.key):
                    require_qualifier(key([]))
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
        value_of = self._bound.get(slot)
        return bound(slot, value_of) if value_of is not None else lambda frame: frame[slot]

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
        operator = _operator(node, arguments)
        if operator is not None:
            return operator
        function = node.function
        if node.target is not None:
            qualified = qualified_function(node, slots.keys(), self._functions)
            if qualified is None:
                arguments.insert(0, self.compile(node.target, slots))
                if function in ("or", "orValue"):
                    return alternative(*arguments, unwrap=function == "orValue")
            function = qualified or function
        if function == "matches" and _constant(node.arguments[-1]):
            text, pattern = arguments
            if type(pattern([])) is str:
                return matching(text, compiled_regex(pattern([])))
        call = dispatch(function, self._overloads[id(node)], arguments)
        if node.target is None and all(map(_constant, node.arguments)):
            return folded(call, must=function in _CONVERSIONS)
        return call

    def _list(self, node: MakeList, slots: Slots) -> Closure:
        items = [self.compile(item, slots) for item in node.items]
        if _constant(node):
            constant = [item([]) for item in items]
            return lambda frame: constant
        if not node.optional:
            return lambda frame: [item(frame) for item in items]

        def build(frame: Frame) -> list[Any]:
            built = []
            for place, item in enumerate(items):
                value = item(frame)
                if place not in node.optional:
                    built.append(value)
                elif type(value) is not Optional:
                    raise EvaluationError(
                        "cannot initialize optional list element from non-optional value "
                        f"{shown(value)}"
                    )
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
                key, value = key_part(frame), value_part(frame)
                if place not in node.optional:
                    built[key] = value
                elif type(value) is not Optional:
                    raise EvaluationError(
                        f"cannot initialize optional entry '{shown(key)}' from non-optional value "
                        f"{shown(value)}"
                    )
                elif value.present:
                    built[key] = value.value
                else:
                    built.pop(key, None)
            return built

        return build

    def _bind(self, node: Bind, slots: Slots) -> Closure:
        value = self.compile(node.value, slots)
        slot = self.slot()
        self._bound[slot] = value
        return binding(slot, self.compile(node.body, {**slots, node.name: slot}))

    def _optional_map(self, node: OptionalMap, slots: Slots) -> Closure:
        target = self.compile(node.target, slots)
        slot = self.slot()
        body = self.compile(node.body, {**slots, node.name: slot})

        def transform(frame: Frame) -> Any:
            option = target(frame)
            if type(option) is not Optional:
                raise no_such_overload("hasValue", kind_of(option))
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
        rounds = rounds_over(target, first, second, pairs=node.second is not None)
        return loop(node.kind, rounds, body, transform)


def _operator(node: Call, arguments: list[Closure]) -> Closure | None:
    """The closure of an operator; None if the call is one of a function."""
    match node.function:
        case "_&&_":
            return connective(arguments[0], arguments[1], decisive=False)
        case "_||_":
            return connective(arguments[0], arguments[1], decisive=True)
        case "!_":
            return negation(arguments[0])
        case "-_":
            return lambda frame: negate(arguments[0](frame))
        case "_?_:_":
            return conditional(*arguments)
        case "@in":
            return _membership(node.arguments[1], *arguments)
    binary = BINARY.get(node.function)
    if binary is None:
        return None
    left, right = arguments
    return lambda frame: binary(left(frame), right(frame))


def _constant(node: Node) -> bool:
    """Is it what upstream works out once, when it makes the program?"""
    match node:
        case Literal():
            return True
        case MakeList():
            return not node.optional and all(map(_constant, node.items))
        case MakeMap():
            return not node.optional and all(
                _constant(key) and _constant(value) for key, value in node.entries
            )
        case Call(function=function, target=None, arguments=(argument,)):
            return function in _CONVERSIONS and _constant(argument)
    return False


def _membership(container: Node, left: Closure, right: Closure) -> Closure:
    """`left in right`; upstream makes a set of a constant list, and nothing is in an empty one."""
    contained = BINARY["@in"]
    if isinstance(container, MakeList) and _constant(container):
        items = right([])
        if not items:
            return lambda frame: False
        if all(type(item) in _PRIMITIVE for item in items):
            contained = hashed_in
    elif isinstance(container, MakeMap):
        contained = hashed_in
    return lambda frame: contained(left(frame), right(frame))
