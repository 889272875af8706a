"""The type variables of one expression: what each of them stands for as far as is known.

Owns which type can be used for which other, and which of two types that go together is the wider
one. An empty list or an absent optional gets a variable, and so does every parameter of a function
each time it is called.
"""

from collections.abc import Sequence

from moorage.plugins.dynamic_resources.cel.types import DYN, Overload, Type, is_parameter

_NOT_NULLABLE = frozenset(
    ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type")
)
_MARK = "?"
"""Begins the name of a variable, and that of nothing else."""


class Unification:
    """What is known about the variables of one expression."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._made = 0

    def variable(self) -> Type:
        """A new variable."""
        self._made += 1
        return Type(f"{_MARK}{self._made}")

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
        inner = tuple(self.resolved(part, final=final) for part in kind.parameters)
        return Type(kind.name, inner)

    def _instance(self, pattern: Type, fresh: dict[str, Type]) -> Type:
        if is_parameter(pattern):
            if pattern.name not in fresh:
                fresh[pattern.name] = self.variable()
            return fresh[pattern.name]
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
