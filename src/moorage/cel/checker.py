"""The types of an expression worked out before it is ever run.

Owns what upstream refuses at compile time, in its words, and which overloads of a function a call
may mean. Must not evaluate anything.
"""

from collections.abc import Container

from moorage.cel.errors import Issue
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
from moorage.cel.types import (
    BOOL,
    DYN,
    INT,
    Functions,
    Overload,
    Type,
    Unification,
    is_variable,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from moorage.cel.values import kind_of

TYPE_NAMES = frozenset(
    (
        *("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"),
        *("optional_type", "google.protobuf.Duration", "google.protobuf.Timestamp"),
        *("net.IP", "net.CIDR"),
    )
)
SORTABLE = frozenset(
    (
        *("int", "uint", "double", "bool", "string", "bytes"),
        *("google.protobuf.Duration", "google.protobuf.Timestamp"),
    )
)
"""The types that have an order."""

Scope = dict[str, Type]
Fields = dict[str, Type]


class Checker:
    """Checks one expression; `issues` and `overloads` are filled on the way."""

    def __init__(self, functions: Functions, objects: dict[str, Fields]) -> None:
        self._functions = functions
        self._objects = objects
        self._unification = Unification()
        self.issues: list[Issue] = []
        self.overloads: dict[int, list[Overload]] = {}
        """By the identity of a call: what it may mean."""
        self.types: dict[int, Type] = {}
        """By the identity of a node."""

    def check(self, tree: Node, scope: Scope) -> Type:
        """The type of an expression; complaints go to `issues`, and the type is then unknown."""
        self._type(tree, scope)
        for node, found in self.types.items():
            self.types[node] = self._unification.resolved(found, final=True)
        return self.types[id(tree)]

    def _type(self, node: Node, scope: Scope) -> Type:
        found = self.types[id(node)] = self._check(node, scope)
        return found

    def _check(self, node: Node, scope: Scope) -> Type:
        match node:
            case Literal():
                return Type(kind_of(node.value))
            case Name():
                return self._name(node, scope)
            case Select():
                return self._select(node, scope)
            case Index():
                return self._index(node, scope)
            case Call():
                return self._call(node, scope)
            case MakeList():
                return self._list(node, scope)
            case MakeMap():
                return self._map(node, scope)
            case BindMacro():
                inner = {**scope, node.name: self._type(node.value, scope)}
                return self._type(node.body, inner)
            case OptionalMap():
                return self._optional_map(node, scope)
            case Comprehension():
                return self._comprehension(node, scope)

    def _complain(self, node: Node, message: str) -> Type:
        self.issues.append(Issue(node.position, message))
        return DYN

    def _name(self, node: Name, scope: Scope) -> Type:
        found = scope.get(node.name)
        if found is not None:
            return found
        if node.name in TYPE_NAMES:
            return type_of(node.name)
        return self._complain(node, f"undeclared reference to '{node.name}' (in container '')")

    def _select(self, node: Select, scope: Scope) -> Type:
        qualified = type_name(node, scope.keys())
        if qualified is not None:
            return type_of(qualified)
        target = self._unification.resolved(self._type(node.operand, scope))
        optional = node.optional or target.name == "optional_type"
        if target.name == "optional_type":
            target = target.parameters[0]
        found = self._field(node, target)
        if node.test:
            return BOOL
        return self._unification.resolved(optional_of(found) if optional else found)

    def _field(self, node: Select, target: Type) -> Type:
        if target.unknown or is_variable(target):
            self._unification.fits(DYN, target)
            return DYN
        if target.name == "map":
            return target.parameters[1]
        fields = self._objects.get(target.name)
        if fields is None:
            return self._complain(node, f"type '{target}' does not support field selection")
        found = fields.get(node.field)
        if found is None:
            return self._complain(node, f"undefined field '{node.field}'")
        return found

    def _index(self, node: Index, scope: Scope) -> Type:
        arguments = (self._type(node.operand, scope), self._type(node.key, scope))
        function = "_[?_]" if node.optional else "_[_]"
        return self._resolve(node, function, arguments, member=False)

    def _call(self, node: Call, scope: Scope) -> Type:
        arguments = tuple(self._type(argument, scope) for argument in node.arguments)
        if node.function in ("_&&_", "_||_"):
            for part, found in zip(node.arguments, arguments, strict=True):
                self._require_bool(part, found)
            return BOOL
        if node.target is None:
            return self._resolve(node, node.function, arguments, member=False)
        qualified = qualified_function(node, scope.keys(), self._functions)
        if qualified is not None:
            return self._resolve(node, qualified, arguments, member=False)
        target = self._type(node.target, scope)
        return self._resolve(node, node.function, (target, *arguments), member=True)

    def _require_bool(self, node: Node, found: Type) -> None:
        if not self._unification.fits(found, BOOL):
            self._complain(node, f"expected type 'bool' but found '{found}'")

    def _resolve(
        self, node: Node, function: str, arguments: tuple[Type, ...], *, member: bool
    ) -> Type:
        known = self._functions.get(function)
        if known is None:
            return self._complain(node, f"undeclared reference to '{function}' (in container '')")
        found: list[Overload] = []
        result: Type | None = None
        for overload in known:
            if overload.member != member:
                continue
            this = self._unification.call(overload, arguments)
            if this is None:
                continue
            found.append(overload)
            if result is None:
                result = this
            elif not result.unknown and result != this:
                result = DYN
        if result is None:
            return self._mismatch(node, function, arguments, member=member)
        self.overloads[id(node)] = found
        return result

    def _mismatch(
        self, node: Node, function: str, arguments: tuple[Type, ...], *, member: bool = False
    ) -> Type:
        arguments = tuple(self._unification.resolved(one, final=True) for one in arguments)
        if member:
            rest = ", ".join(map(str, arguments[1:]))
            applied = f"{arguments[0]}.({rest})"
        else:
            applied = f"({', '.join(map(str, arguments))})"
        return self._complain(
            node, f"found no matching overload for '{function}' applied to '{applied}'"
        )

    def _list(self, node: MakeList, scope: Scope) -> Type:
        item: Type | None = None
        for place, part in enumerate(node.items):
            item = self._joined(item, self._part(part, scope, optional=place in node.optional))
        return list_of(item or self._unification.variable())

    def _map(self, node: MakeMap, scope: Scope) -> Type:
        key: Type | None = None
        value: Type | None = None
        for place, (key_part, value_part) in enumerate(node.entries):
            key = self._joined(key, self._type(key_part, scope))
            found = self._part(value_part, scope, optional=place in node.optional)
            value = self._joined(value, found)
        return map_of(key or self._unification.variable(), value or self._unification.variable())

    def _part(self, node: Node, scope: Scope, *, optional: bool) -> Type:
        """The type of a part of a list or map; where it is optional, that of what is inside."""
        found = self._type(node, scope)
        if not optional:
            return found
        if found.name == "optional_type":
            return found.parameters[0]
        if not found.unknown:
            self._complain(node, f"expected type '{optional_of(found)}' but found '{found}'")
        return found

    def _joined(self, before: Type | None, found: Type) -> Type:
        """The type of parts together; that literals must not mix them is said in `literals`."""
        if before is None:
            return found
        return self._unification.joined(before, found) or DYN

    def _optional_map(self, node: OptionalMap, scope: Scope) -> Type:
        """As upstream's macro: `target.hasValue() ? ... target.value() ... : optional.none()`."""
        target = self._type(node.target, scope)
        self._resolve(node, "hasValue", (target,), member=True)
        inner = self._resolve(node, "value", (target,), member=True)
        body = self._type(node.body, {**scope, node.name: inner})
        made = body if node.flat else optional_of(body)
        absent = optional_of(self._unification.variable())
        return self._resolve(node, "_?_:_", (BOOL, made, absent), member=False)

    def _comprehension(self, node: Comprehension, scope: Scope) -> Type:
        target = self._unification.resolved(self._type(node.target, scope))
        if is_variable(target):
            self._unification.fits(DYN, target)
            target = DYN
        if target.name not in ("list", "map", "dyn"):
            return self._complain(
                node.target,
                f"expression of type '{target}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        first, second = DYN, DYN
        if target.name == "list":
            first, second = target.parameters[0], target.parameters[0]
            if node.second is not None:
                first = INT
        elif target.name == "map":
            first, second = target.parameters
        inner = {**scope, node.name: first}
        if node.second is not None:
            inner[node.second] = second
        body = self._type(node.body, inner)
        if node.kind == "map" and node.transform is None:
            return list_of(body)
        if node.kind == "sortBy":
            return self._sorted(node, target, body)
        self._require_bool(node.body, body)
        if node.transform is not None:
            return self._transformed(node, first, self._type(node.transform, inner))
        return list_of(first) if node.kind == "filter" else BOOL

    def _sorted(self, node: Comprehension, target: Type, key: Type) -> Type:
        key = self._unification.resolved(key, final=True)
        if target.name == "map" or not (key.unknown or key.name in SORTABLE):
            return self._mismatch(
                node, "@sortByAssociatedKeys", (target, list_of(key)), member=True
            )
        return target

    def _transformed(self, node: Comprehension, key: Type, made: Type) -> Type:
        match node.kind:
            case "transformMap":
                return map_of(key, made)
            case "transformMapEntry":
                made = self._unification.resolved(made, final=True)
                if made.name == "map" or made.unknown:
                    return made
                return self._mismatch(node, "cel.@mapInsert", (map_of(DYN, DYN), made))
        return list_of(made)


def type_name(node: Select, names: Container[str]) -> str | None:
    """`net.IP` looks like a field; it is a type if `net` is no variable."""
    parts = [node.field]
    operand: Node = node.operand
    while isinstance(operand, Select) and not operand.optional and not operand.test:
        parts.append(operand.field)
        operand = operand.operand
    if not isinstance(operand, Name) or operand.name in names:
        return None
    name = ".".join((operand.name, *reversed(parts)))
    return name if name in TYPE_NAMES else None


def qualified_function(call: Call, names: Container[str], functions: Functions) -> str | None:
    """`sets.contains(...)` looks like a method; it is one function if `sets` is no variable."""
    target = call.target
    if isinstance(target, Name) and target.name not in names:
        qualified = f"{target.name}.{call.function}"
        return qualified if qualified in functions else None
    return None
