"""The types of expressions, the signatures of functions, and which type can stand for which.

A signature is written as text, `string.split(string) -> list(string)`; single capital letters are
type parameters. An empty list or an absent optional gets a type variable, and so does every
parameter of a function each time it is called; `Unification` knows what they stand for.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
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
BOOL = Type("bool")
INT = Type("int")
STRING = Type("string")


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

    arguments: tuple[Type, ...]
    """The target first, if there is one."""
    result: Type
    member: bool
    implementation: Callable[..., Any] | None

    guarded: bool = True
    """Are values of other types kept away? If not, the implementation refuses them itself."""


Functions = dict[str, list[Overload]]


class Signatures:
    """A table of functions under construction."""

    def __init__(self) -> None:
        self.functions: Functions = {}

    def add(
        self,
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
        overload = Overload(tuple(arguments), parse_type(result), member, implementation, guarded)
        self.functions.setdefault(full_name, []).append(overload)


@lru_cache(maxsize=256)
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


_NOT_NULLABLE = frozenset(
    ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type")
)
_MARK = "_var"
"""Begins the name of a variable, and that of nothing else."""


class Unification:
    """What is known about the variables of one expression."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._made = 0

    def variable(self) -> Type:
        """A new variable."""
        self._made += 1
        return Type(f"{_MARK}{self._made - 1}")

    def call(self, overload: Overload, given: Sequence[Type]) -> Type | None:
        """The type of a call, or None if the arguments do not fit, and then nothing is learnt."""
        fresh: dict[str, Type] = {}
        wanted = [self._instance(argument, fresh) for argument in overload.arguments]
        result = self._instance(overload.result, fresh)
        return self.resolved(result) if self._all_fit(given, wanted) else None

    def fits(self, given: Type, wanted: Type) -> bool:
        """Can a type be used where another one is asked for? If not, nothing is learnt."""
        return self._all_fit((given,), (wanted,))

    def joined(self, before: Type, found: Type) -> Type | None:
        """The type of two parts of one list or map; None if they do not go together."""
        return _wider(before, found) if self.fits(before, found) else None

    def resolved(self, kind: Type, *, final: bool = False) -> Type:
        """The type without the variables that are known; finally, without any."""
        if is_variable(kind):
            known = self._known.get(kind.name)
            if known is not None:
                return self.resolved(known, final=final)
            return DYN if final else kind
        if not kind.parameters:
            return kind
        inner = tuple(self.resolved(part, final=final) for part in kind.parameters)
        return Type(kind.name, inner)

    def _instance(self, pattern: Type, fresh: dict[str, Type]) -> Type:
        if is_parameter(pattern):
            if pattern.name not in fresh:
                fresh[pattern.name] = self.variable()
            return fresh[pattern.name]
        if not pattern.parameters:
            return pattern
        inner = tuple(self._instance(part, fresh) for part in pattern.parameters)
        return Type(pattern.name, inner)

    def _all_fit(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        before = dict(self._known)
        if len(given) == len(wanted) and all(map(self._fit, given, wanted)):
            return True
        self._known = before
        return False

    def _fit(self, given: Type, wanted: Type) -> bool:
        if is_variable(wanted):
            learnt = self._learn(wanted, given)
            if learnt is not None:
                return learnt
        if is_variable(given):
            return self._learn(given, wanted) is True
        if given.unknown or wanted.unknown:
            return True
        if "null_type" in (given.name, wanted.name):
            return given.name not in _NOT_NULLABLE and wanted.name not in _NOT_NULLABLE
        if given.name != wanted.name:
            return False
        if given.name == "type":
            return True
        return len(given.parameters) == len(wanted.parameters) and all(
            map(self._fit, given.parameters, wanted.parameters)
        )

    def _learn(self, variable: Type, other: Type) -> bool | None:
        """Let a variable stand for a type; None if it is unknown and cannot be that either."""
        known = self._known.get(variable.name)
        if other in (variable, known):
            return True
        if known is None:
            if self._occurs(variable, other):
                return None
            self._known[variable.name] = other
            return True
        if not self._fit(other, known):
            return False
        wider = _wider(other, known)
        if not self._occurs(variable, wider):
            self._known[variable.name] = wider
        return True

    def _occurs(self, variable: Type, within: Type) -> bool:
        if within == variable:
            return True
        if is_variable(within):
            known = self._known.get(within.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, part) for part in within.parameters)


def is_variable(kind: Type) -> bool:
    """Is it a variable, not a type?"""
    return kind.name.startswith(_MARK)


def _wider(one: Type, other: Type) -> Type:
    return one if _covers(one, other) else other


def _covers(one: Type, other: Type) -> bool:
    """Is it the same type, or a less definite one?"""
    if one.unknown or is_variable(one):
        return True
    if other.unknown or is_variable(other) or one.name != other.name:
        return False
    if one.name == "type":
        return True
    return all(map(_covers, one.parameters, other.parameters))
