"""CEL's grammar, and its macros: tokens become a tree of `syntax` nodes.

Owns precedence and what `has`, `all`, `cel.bind` and their kin stand for. Types are the checker's.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from moorage.cel.errors import Issue
from moorage.cel.lexer import Token, TokenKind, tokens
from moorage.cel.values import MAX_INT


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    position: int
    value: object


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    position: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`; `optional` for `operand.?field`, `test` inside `has()`."""

    position: int
    operand: "Node"
    field: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]`; `optional` for `operand[?key]`."""

    position: int
    operand: "Node"
    key: "Node"
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function or an operator (`_&&_`, ...); `target` is set for `target.function(...)`."""

    position: int
    function: str
    arguments: tuple["Node", ...]
    target: "Node | None" = None


@dataclass(frozen=True, slots=True)
class MakeList:
    """`[a, b]`; `optional` names the places written `?a`."""

    position: int
    items: tuple["Node", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MakeMap:
    """`{a: b}`; `optional` names the places written `?a: b`."""

    position: int
    entries: tuple[tuple["Node", "Node"], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class BindMacro:
    """`cel.bind(name, value, body)`."""

    position: int
    name: str
    value: "Node"
    body: "Node"


@dataclass(frozen=True, slots=True)
class OptionalMap:
    """`target.optMap(name, body)`, or `optFlatMap`."""

    position: int
    target: "Node"
    name: str
    body: "Node"
    flat: bool


@dataclass(frozen=True, slots=True)
class Comprehension:
    """`target.all(name, body)` and its kin; `second` is the value where two names are given.

    With a `transform`, `body` is the condition under which it is made.
    """

    position: int
    kind: str
    target: "Node"
    name: str
    second: str | None
    body: "Node"
    transform: "Node | None" = None


Node = (
    Literal
    | Name
    | Select
    | Index
    | Call
    | MakeList
    | MakeMap
    | BindMacro
    | OptionalMap
    | Comprehension
)


_BINARY = (
    ("||",),
    ("&&",),
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators between two operands, from the loosest binding to the tightest."""
_CONSTANTS: dict[str, object] = {"true": True, "false": False, "null": None}
_TRANSFORMS = frozenset(("transformList", "transformMap", "transformMapEntry"))
_QUANTIFIERS = frozenset(("all", "exists", "exists_one", "existsOne", "filter", "map"))
# Upstream's limit is 250; much less would end in Python's recursion limit here.
_MAX_DEPTH = 40
_UNSORTABLE = (
    "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
)
TOO_DEEP = "expression recursion limit exceeded: 250"


P = TypeVar("P")


def children(node: Node) -> Iterator[Node]:
    """The expressions that an expression consists of."""
    for field in node.__dataclass_fields__:
        yield from _nodes(getattr(node, field))


def _nodes(part: Any) -> Iterator[Node]:
    if isinstance(part, tuple):
        for one in part:
            yield from _nodes(one)
    elif hasattr(part, "position"):
        yield part


def parse(source: str) -> Node:
    """The tree of an expression; raises `Issue`."""
    parser = _Parser(source)
    node = parser.expression()
    parser.expect_end()
    return node


class _Parser:
    def __init__(self, source: str) -> None:
        self._tokens = tokens(source)
        self._next = 0
        self._depth = 0

    # Tokens

    @property
    def _current(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._current
        self._next += 1
        return token

    def _at(self, text: str) -> bool:
        token = self._current
        return token.text == text and token.kind in (TokenKind.OPERATOR, TokenKind.NAME)

    def _accept(self, text: str) -> Token | None:
        return self._take() if self._at(text) else None

    def _expect(self, text: str) -> Token:
        if not self._at(text):
            raise self._unexpected(f"'{text}'")
        return self._take()

    def _expect_name(self) -> Token:
        if self._current.kind is not TokenKind.NAME or self._current.text in _CONSTANTS:
            raise self._unexpected("IDENTIFIER")
        return self._take()

    def expect_end(self) -> None:
        """Nothing may be left over."""
        if self._current.kind is not TokenKind.END:
            raise self._unexpected("<EOF>")

    def _unexpected(self, wanted: str) -> Issue:
        token = self._current
        return Issue(
            token.position, f"Syntax error: mismatched input '{token.text}' expecting {wanted}"
        )

    # Expressions, from the loosest binding to the tightest

    def expression(self) -> Node:
        """A whole expression, the ternary operator included."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Issue(self._current.position, TOO_DEEP)
        condition = self._binary()
        if question := self._accept("?"):
            chosen = self._binary()
            self._expect(":")
            other = self.expression()
            condition = Call(question.position, "_?_:_", (condition, chosen, other))
        self._depth -= 1
        return condition

    def _binary(self, level: int = 0) -> Node:
        """Operators of a level and of those that bind tighter, grouped from the left."""
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while any(map(self._at, _BINARY[level])):
            token = self._take()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            left = Call(token.position, function, (left, self._binary(level + 1)))
        return left

    def _unary(self) -> Node:
        for text, function in (("!", "!_"), ("-", "-_")):
            if not self._at(text):
                continue
            first = self._current
            count = 0
            while self._accept(text):
                count += 1
            number = self._negative(first) if text == "-" and count % 2 else None
            operand = number if number is not None else self._member()
            if count % 2 and number is None:
                return Call(first.position, function, (operand,))
            return operand
        return self._member()

    def _negative(self, sign: Token) -> Node | None:
        """A negative constant, which may be the smallest int."""
        value = self._current.value
        if self._current.kind is not TokenKind.LITERAL or type(value) not in (int, float):
            return None
        self._take()
        assert isinstance(value, int | float)
        return self._members(Literal(sign.position, -value))

    def _member(self) -> Node:
        return self._members(self._primary())

    def _members(self, node: Node) -> Node:
        while True:
            if dot := self._accept("."):
                optional = self._accept("?") is not None
                if self._current.kind is TokenKind.FIELD:
                    node = Select(dot.position, node, str(self._take().value), optional)
                    continue
                name = self._expect_name()
                if not optional and (opening := self._accept("(")):
                    node = self._method(node, name.text, opening.position)
                else:
                    node = Select(dot.position, node, name.text, optional)
            elif bracket := self._accept("["):
                optional = self._accept("?") is not None
                node = Index(bracket.position, node, self.expression(), optional)
                self._expect("]")
            else:
                return node

    def _primary(self) -> Node:
        token = self._current
        if token.kind is TokenKind.LITERAL:
            self._take()
            if type(token.value) is int and token.value > MAX_INT:
                raise Issue(token.position, "invalid int literal")
            return Literal(token.position, token.value)
        if token.kind is TokenKind.NAME:
            return self._name()
        if self._accept("("):
            node = self.expression()
            self._expect(")")
            return node
        if self._accept("["):
            return self._list(token.position)
        if self._accept("{"):
            return self._map(token.position)
        raise self._unexpected("an expression")

    def _name(self) -> Node:
        token = self._take()
        if token.text in _CONSTANTS:
            return Literal(token.position, _CONSTANTS[token.text])
        if opening := self._accept("("):
            arguments = self._arguments()
            if token.text == "has" and len(arguments) == 1:
                return _has(arguments[0])
            return Call(opening.position, token.text, arguments)
        return Name(token.position, token.text)

    def _separated(self, closing: str, part: Callable[[], P]) -> list[P]:
        """Parts between commas, up to a closing bracket; a last comma may be left over."""
        parts: list[P] = []
        while not self._at(closing):
            parts.append(part())
            if not self._accept(","):
                break
        self._expect(closing)
        return parts

    def _list(self, position: int) -> Node:
        parts = self._separated("]", lambda: (self._accept("?") is not None, self.expression()))
        optional = frozenset(place for place, (marked, _) in enumerate(parts) if marked)
        return MakeList(position, tuple(item for _, item in parts), optional)

    def _map(self, position: int) -> Node:
        optional: set[int] = set()
        entries: list[tuple[Node, Node]] = []

        def entry() -> None:
            if self._accept("?"):
                optional.add(len(entries))
            key = self.expression()
            self._expect(":")
            entries.append((key, self.expression()))

        self._separated("}", entry)
        return MakeMap(position, tuple(entries), frozenset(optional))

    def _arguments(self) -> tuple[Node, ...]:
        return tuple(self._separated(")", self.expression))

    # Macros

    def _method(self, target: Node, function: str, position: int) -> Node:
        arguments = self._arguments()
        if function == "bind" and isinstance(target, Name) and target.name == "cel":
            if len(arguments) != 3:
                raise Issue(position, "undeclared reference to 'bind' (in container '')")
            name = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
            return BindMacro(position, name, arguments[1], arguments[2])
        if function in ("optMap", "optFlatMap") and len(arguments) == 2:
            name = _variable(
                arguments[0], f"{function}() variable name must be a simple identifier"
            )
            return OptionalMap(position, target, name, arguments[1], function == "optFlatMap")
        if function in _QUANTIFIERS and len(arguments) in (2, 3):
            return _comprehension(position, function, target, arguments)
        if function == "sortBy" and len(arguments) == 2:
            if isinstance(target, Literal | MakeMap):
                raise Issue(target.position, _UNSORTABLE)
            name = _variable(arguments[0], "argument is not an identifier")
            return Comprehension(position, function, target, name, None, arguments[1])
        if function in _TRANSFORMS and len(arguments) in (3, 4):
            name, second = _two_variables(arguments)
            condition = arguments[2] if len(arguments) == 4 else Literal(position, True)
            return Comprehension(position, function, target, name, second, condition, arguments[-1])
        return Call(position, function, arguments, target)


def _has(chosen: Node) -> Node:
    if isinstance(chosen, Select):
        return Select(chosen.position, chosen.operand, chosen.field, test=True)
    raise Issue(chosen.position, "invalid argument to has() macro")


def _comprehension(position: int, function: str, target: Node, arguments: tuple[Node, ...]) -> Node:
    name = _variable(arguments[0], "argument must be a simple name")
    kind = "exists_one" if function == "existsOne" else function
    if len(arguments) == 2:
        return Comprehension(position, kind, target, name, None, arguments[1])
    if function == "map":
        return Comprehension(position, kind, target, name, None, arguments[1], arguments[2])
    if function == "filter":
        return Call(position, function, arguments, target)
    name, second = _two_variables(arguments)
    return Comprehension(position, kind, target, name, second, arguments[2])


def _two_variables(arguments: tuple[Node, ...]) -> tuple[str, str]:
    complaint = "argument must be a simple name"
    first, second = _variable(arguments[0], complaint), _variable(arguments[1], complaint)
    if first == second:
        raise Issue(arguments[1].position, f"duplicate variable name: {first}")
    return first, second


def _variable(node: Node, complaint: str) -> str:
    if isinstance(node, Name):
        return node.name
    raise Issue(node.position, complaint)
