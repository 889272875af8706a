"""The types the checker reasons with, and the signatures of functions.

Must not know which type can stand for which: `unification` does. A signature is written as text,
`string.split(string) -> list(string)`; single capital letters are type parameters.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moorage.plugins.dynamic_resources.cel.values import kind_of

_WRITTEN = {
    "cidr": "net.CIDR",
    "duration": "google.protobuf.Duration",
    "ip": "net.IP",
    "named_format": "kubernetes.NamedFormat",
    "optional": "optional_type",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "timestamp": "google.protobuf.Timestamp",
    "url": "kubernetes.URL",
}
"""How signatures write a type -> its name."""
_SHOWN = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}
"""Where complaints call a type by another name."""


class Type(NamedTuple):
    """A type; lists, maps and optionals have parameters."""

    name: str
    parameters: tuple["Type", ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return _SHOWN.get(self.name, self.name)
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def full_name(self) -> str:
        """Its name where no shorter one is used."""
        name = "google.protobuf.Any" if self.name == "any" else self.name
        if not self.parameters:
            return name
        return f"{name}({', '.join(inner.full_name for inner in self.parameters)})"

    @property
    def unknown(self) -> bool:
        """Can it be anything?"""
        return self.name in ("dyn", "any")


DYN = Type("dyn")
ANY = Type("any")
BOOL = Type("bool")
INT = Type("int")
STRING = Type("string")
QUANTITY = Type("kubernetes.Quantity")


def list_of(item: Type) -> Type:
    """A list."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """A map."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """A value that may be absent."""
    return Type("optional_type", (value,))


def type_of(name: str) -> Type:
    """The type of a type's name; what is in lists, maps and optionals is left open."""
    inside = {"list": 1, "map": 2, "optional_type": 1}.get(name, 0)
    return Type("type", (Type(name, (DYN,) * inside),))


class Overload(NamedTuple):
    """One way to call a function; `implementation` None: the compiler knows the operator."""

    identifier: str
    arguments: tuple[Type, ...]
    """The target first, if there is one."""
    result: Type
    member: bool
    implementation: Callable[..., Any] | None

    guarded: bool = True
    """Are values of other types kept away? If not, the implementation refuses them itself."""

    def accepts(self, values: Sequence[object]) -> bool:
        """Is the function made for these values?"""
        return not self.guarded or (
            len(values) == len(self.arguments) and all(map(_accepts, self.arguments, values))
        )


def _accepts(wanted: Type, value: Any) -> bool:
    """Upstream takes a list for what its first item is."""
    if wanted.unknown or is_parameter(wanted):
        return True
    if wanted.name != kind_of(value):
        return False
    return wanted.name != "list" or not value or _accepts(wanted.parameters[0], value[0])


Functions = dict[str, list[Overload]]


class Signatures:
    """A table of functions under construction."""

    def __init__(self) -> None:
        self.functions: Functions = {}

    def add(
        self,
        identifier: str,
        signature: str,
        implementation: Callable[..., Any] | None = None,
        *,
        guarded: bool = True,
    ) -> None:
        """Add one overload, written `target.name(arguments) -> result`."""
        call, _, result = signature.partition(" -> ")
        opening = _opening(call)
        target, dot, name = call[:opening].rpartition(".")
        arguments = [parse_type(text) for text in _split(call[opening + 1 : -1])]
        member = bool(dot) and not target.startswith("@")
        if member:
            arguments.insert(0, parse_type(target))
        full_name = name if member or not dot else f"{target[1:]}.{name}"
        overload = Overload(
            identifier, tuple(arguments), parse_type(result), member, implementation, guarded
        )
        self.functions.setdefault(full_name, []).append(overload)

    def add_operator(self, identifier: str, name: str, arguments: str, result: str) -> None:
        """Add one overload of an operator."""
        types = tuple(parse_type(text) for text in _split(arguments))
        overload = Overload(identifier, types, parse_type(result), False, None)
        self.functions.setdefault(name, []).append(overload)


def parse_type(text: str) -> Type:
    """A type from its text."""
    name, opening, inside = text.strip().partition("(")
    parameters = tuple(parse_type(part) for part in _split(inside[:-1])) if opening else ()
    return Type(_WRITTEN.get(name, name), parameters)


def is_parameter(pattern: Type) -> bool:
    """Is it a parameter of a signature?"""
    return len(pattern.name) == 1


def _opening(call: str) -> int:
    """Where the argument list begins: the parenthesis that the last one closes."""
    depth = 0
    for place in range(len(call) - 1, -1, -1):
        depth += (call[place] == ")") - (call[place] == "(")
        if depth == 0:
            return place
    raise ValueError(call)


def _split(text: str) -> list[str]:
    """Cut at the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
