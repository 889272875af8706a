"""A checked expression turned into nested Python closures, made once and run per device.

Owns what each part of an expression becomes and where its variables are kept. A closure takes the
frame: the values of the variables, `device` first.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from moorage.cel.checker import TYPE_NAMES, qualified_function, type_name
from moorage.cel.closures import (
    Closure,
    alternative,
    binding,
    bound,
    conditional,
    connective,
    dispatch,
    folded,
    loop,
    matching,
    negation,
    rounds_over,
    spend,
)
from moorage.cel.costs import (
    COST,
    FRAME_START,
    LIST_COST,
    MAP_COST,
    NEXT_CHECK,
    CallCost,
    Frame,
    call_cost,
    new_frame,
)
from moorage.cel.errors import EvaluationError, no_such_overload
from moorage.cel.operators import (
    BINARY,
    has_key,
    hashed_in,
    look_up,
    negate,
    optional_look_up,
    require_qualifier,
    shown,
)
from moorage.cel.strings import compiled_regex
from moorage.cel.syntax import (
    BindMacro,
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
from moorage.cel.types import Functions, Overload
from moorage.cel.values import Optional, TypeValue, Uint, kind_of

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
        self.frame_size = FRAME_START

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
                return self._index(node, slots)
            case Call():
                return self._call(node, slots)
            case MakeList():
                return self._list(node, slots)
            case MakeMap():
                return self._map(node, slots)
            case BindMacro():
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
        if value_of is not None:
            return bound(slot, value_of)

        def read(frame: Frame) -> Any:
            frame[COST] += 1
            return frame[slot]

        return read

    def _index(self, node: Index, slots: Slots) -> Closure:
        operand, key = self.compile(node.operand, slots), self.compile(node.key, slots)
        look = optional_look_up if node.optional else look_up
        cost = _step_cost(node.operand) - _is_attribute(node.key)
        if _constant(node.key):
            require_qualifier(key(new_frame()))

        def index(frame: Frame) -> Any:
            container, place = operand(frame), key(frame)
            frame[COST] += cost
            return look(container, place)

        return index

    def _select(self, node: Select, slots: Slots) -> Closure:
        qualified = type_name(node, slots.keys())
        if qualified is not None:
            type_value = TypeValue(qualified)
            return lambda frame: type_value
        operand, field = self.compile(node.operand, slots), node.field
        look: Callable[[Any, str], Any] = optional_look_up if node.optional else look_up
        if node.test:
            look = has_key
        cost = _step_cost(node.operand) - node.test

        def select(frame: Frame) -> Any:
            container = operand(frame)
            frame[COST] += cost
            return look(container, field)

        return select

    def _call(self, node: Call, slots: Slots) -> Closure:
        arguments = [self.compile(argument, slots) for argument in node.arguments]
        operator = _operator(node, arguments, self._overloads.get(id(node), []))
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
            text, pattern = arguments[0], arguments[1](new_frame())
            if type(pattern) is str:
                cost = call_cost(function, self._overloads[id(node)])
                return matching(text, pattern, cost)
        if function in ("find", "findAll") and _constant(node.arguments[0]):
            # Upstream compiles a constant pattern with the program.
            compiled_regex(str(arguments[1](new_frame())))
        call = dispatch(function, self._overloads[id(node)], arguments)
        if node.target is None and all(map(_constant, node.arguments)):
            return folded(call, must=function in _CONVERSIONS)
        return call

    def _list(self, node: MakeList, slots: Slots) -> Closure:
        items = [self.compile(item, slots) for item in node.items]
        if _constant(node):
            constant = [item(new_frame()) for item in items]
            return lambda frame: constant

        def build(frame: Frame) -> list[Any]:
            built = []
            spend(frame, LIST_COST)
            for place, item in enumerate(items):
                value = item(frame)
                if place not in node.optional:
                    built.append(value)
                elif _present(value, "list element"):
                    built.append(value.value)
            return built

        return build

    def _map(self, node: MakeMap, slots: Slots) -> Closure:
        cost = 0 if _constant(node) else MAP_COST
        entries = [
            (self.compile(key, slots), self.compile(value, slots)) for key, value in node.entries
        ]

        def build(frame: Frame) -> dict[Any, Any]:
            built: dict[Any, Any] = {}
            spend(frame, cost)
            for place, (key_part, value_part) in enumerate(entries):
                key, value = key_part(frame), value_part(frame)
                try:
                    hash(key)
                except TypeError:
                    raise EvaluationError(f"unsupported key type: {kind_of(key)}") from None
                if place not in node.optional:
                    built[key] = value
                elif _present(value, f"entry '{shown(key)}'"):
                    built[key] = value.value
                else:
                    built.pop(key, None)
            return built

        return build

    def _bind(self, node: BindMacro, slots: Slots) -> Closure:
        value = self.compile(node.value, slots)
        slot = self.slot()
        self._bound[slot] = value
        return binding(slot, self.compile(node.body, {**slots, node.name: slot}))

    def _optional_map(self, node: OptionalMap, slots: Slots) -> Closure:
        target = self.compile(node.target, slots)
        slot = self.slot()
        body = self.compile(node.body, {**slots, node.name: slot})

        def transform(frame: Frame) -> Any:
            before = frame[COST]
            option = target(frame)
            # Upstream evaluates the target twice, and once whether it has a value.
            asked = frame[COST] - before + 1
            frame[COST] += 1
            if type(option) is not Optional:
                raise no_such_overload("hasValue", kind_of(option))
            if not option.present:
                frame[COST] += 1
                return option
            spend(frame, asked if node.flat else asked + 1)
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
        transform: Closure | None = None
        if node.transform is not None:
            transform = self.compile(node.transform, inner)
        elif node.kind == "filter":
            transform = itemgetter(first)
        rounds = rounds_over(target, first, second, pairs=node.second is not None)
        made = node.transform or node.body
        append_cost = 2 if _constant(made) else LIST_COST + 2 + (node.kind == "filter")
        return loop(node.kind, rounds, body, transform, append_cost)


def _present(value: Any, part: str) -> bool:
    """Does an optional part of a list or map have a value?"""
    if type(value) is not Optional:
        raise EvaluationError(
            f"cannot initialize optional {part} from non-optional value {shown(value)}"
        )
    return value.present


def _is_attribute(node: Node) -> bool:
    """Is it looked up, rather than computed?"""
    return isinstance(node, Name | Select | Index) and not (isinstance(node, Select) and node.test)


def _step_cost(operand: Node) -> int:
    """The cost of a field or item; where a computed value is looked into, that costs as well."""
    conditional = isinstance(operand, Call) and operand.function == "_?_:_"
    return 1 if conditional or _is_attribute(operand) else 2


def _operator(node: Call, arguments: list[Closure], overloads: list[Overload]) -> Closure | None:
    """The closure of an operator; None if the call is one of a function."""
    match node.function:
        case "_&&_":
            return connective(arguments[0], arguments[1], decisive=False)
        case "_||_":
            return connective(arguments[0], arguments[1], decisive=True)
        case "!_":
            return negation(arguments[0])
        case "-_":
            return _negative(arguments[0])
        case "_?_:_":
            chosen, other = map(int, map(_is_attribute, node.arguments[1:]))
            condition, then, otherwise = arguments
            return conditional(condition, then, otherwise, rebates=(chosen, other))
        case "@in":
            return _membership(node, arguments[0], arguments[1], overloads)
    binary = BINARY.get(node.function)
    if binary is None:
        return None
    return _binary(binary, arguments[0], arguments[1], call_cost(node.function, overloads))


def _negative(operand: Closure) -> Closure:
    def evaluate(frame: Frame) -> Any:
        frame[COST] += 1
        return negate(operand(frame))

    return evaluate


def _binary(
    operation: Callable[[Any, Any], Any], left: Closure, right: Closure, cost: CallCost
) -> Closure:
    def evaluate(frame: Frame) -> Any:
        values = left(frame), right(frame)
        if type(values[0]) is list and type(values[1]) is list:
            # Upstream joins lists without copying them: what we copy brings the next check nearer.
            frame[NEXT_CHECK] -= (len(values[0]) + len(values[1])) // 64
        spend(frame, cost(values, None))
        return operation(*values)

    return evaluate


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


def _membership(node: Call, left: Closure, right: Closure, overloads: list[Overload]) -> Closure:
    """`left in right`; upstream makes a set of a constant list, and nothing is in an empty one."""
    contained, container = BINARY["@in"], node.arguments[1]
    if isinstance(container, MakeList) and _constant(container):
        items = right(new_frame())
        if not items:
            return lambda frame: False
        if all(type(item) in _PRIMITIVE for item in items):
            return lambda frame: hashed_in(left(frame), items)
    elif isinstance(container, MakeMap):
        contained = hashed_in
    return _binary(contained, left, right, call_cost("@in", overloads))
