"""The types the checker reasons with, and the signatures of functions.

Owns which type can stand for which. A signature is written as text, `string.split(string) ->
list(string)`; single capital letters are type parameters.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

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


class Overload(NamedTuple):
    """One way to call a function; `implementation` None: the compiler knows the operator."""

    identifier: str
    arguments: tuple[Type, ...]
    """The target first, if there is one."""
    result: Type
    member: bool
    implementation: Callable[..., Any] | None

    def accepts(self, kinds: tuple[str, ...]) -> bool:
        """Are values of these kinds what the function is made for?"""
        return len(kinds) == len(self.arguments) and all(
            wanted.name == kind or wanted.unknown or _is_parameter(wanted)
            for wanted, kind in zip(self.arguments, kinds, strict=True)
        )


Functions = dict[str, list[Overload]]


class Signatures:
    """A table of functions under construction."""

    def __init__(self) -> None:
        self.functions: Functions = {}

    def add(
        self, identifier: str, signature: str, implementation: Callable[..., Any] | None = None
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
            identifier, tuple(arguments), parse_type(result), member, implementation
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


def resolve(overload: Overload, arguments: Iterable[Type]) -> Type | None:
    """The type of a call, or None if the arguments do not fit."""
    actual = tuple(arguments)
    if len(actual) != len(overload.arguments):
        return None
    bound: dict[str, Type] = {}
    for wanted, given in zip(overload.arguments, actual, strict=True):
        if not assignable(wanted, given, bound):
            return None
    return _substitute(overload.result, bound)


def assignable(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:
    """Can a value of type `given` be used where `wanted` is asked for?"""
    if wanted.unknown or given.unknown:
        if _is_parameter(wanted):
            bound.setdefault(wanted.name, given)
        return True
    if _is_parameter(wanted):
        known = bound.get(wanted.name)
        if known is None or known.unknown:
            bound[wanted.name] = given
            return True
        return assignable(known, given, bound)
    if wanted.name != given.name:
        return False
    return all(
        assignable(inner, other, bound)
        for inner, other in zip(wanted.parameters, given.parameters, strict=False)
    )


def _substitute(pattern: Type, bound: dict[str, Type]) -> Type:
    if _is_parameter(pattern):
        return bound.get(pattern.name, DYN)
    return Type(pattern.name, tuple(_substitute(inner, bound) for inner in pattern.parameters))


def _is_parameter(pattern: Type) -> bool:
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
