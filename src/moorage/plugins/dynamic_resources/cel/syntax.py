"""The parts of a parsed CEL expression. Positions are offsets into the source, for messages."""

from dataclasses import dataclass


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
class Bind:
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
    Literal | Name | Select | Index | Call | MakeList | MakeMap | Bind | OptionalMap | Comprehension
)
