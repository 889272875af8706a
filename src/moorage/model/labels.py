"""Label selectors, compiled once into values that can be compared and used as keys.

An absent selector selects nothing, an empty one everything: that is the API's rule, and why
`compile_selector(None)` is `NOTHING` while an empty `LabelSelector` compiles to `EVERYTHING`.
"""

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache

import msgspec

from moorage.errors import SelectorError
from moorage.model.meta import Object
from moorage.model.spelling import LABEL_VALUE, label_key_errors

Labels = Mapping[str, str]

_INT64_DIGITS = 19
_MOST_SPELT = 1024
"""So many keys and values are known to be well spelt: the labels of unlike pods have most alike."""
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NUMERIC_OPERATORS = ("Gt", "Lt")


class LabelSelectorRequirement(Object, frozen=True):
    """One expression of a selector as the API writes it."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object, frozen=True):
    """A selector as the API writes it."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    @property
    def key(self) -> Hashable:
        """The selector as a value that can be a key."""
        return tuple(self.match_labels.items()), self.match_expressions


class Requirement(msgspec.Struct, frozen=True, cache_hash=True):
    """One test on one label; `values` are sorted so that equal tests are equal values."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Does a set of labels pass?"""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and self.accepts_number(value)

    def accepts_number(self, text: str) -> bool:
        """`Gt` and `Lt`: both sides must be integers, anything else does not match."""
        number, bound = parse_int64(text), parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


class Selector(msgspec.Struct, frozen=True, cache_hash=True):
    """Requirements that must all hold; `nothing` makes it match no labels at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Go's `Selector.Empty()`: it restricts nothing (a `NOTHING` selector is not empty)."""
        return not self.nothing and not self.requirements

    def matches(self, labels: Labels) -> bool:
        """Does a set of labels pass every requirement?"""
        return not self.nothing and all(r.matches(labels) for r in self.requirements)

    def and_also(self, requirements: Iterable[Requirement]) -> "Selector":
        """The same selector, narrowed by more requirements."""
        return Selector(_ordered((*self.requirements, *requirements)), self.nothing)


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def parse_int64(text: str) -> int | None:
    """Go's `strconv.ParseInt(text, 10, 64)`, or None where that fails."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    significant = digits.lstrip("0")
    if not digits.isascii() or not digits.isdigit() or len(significant) > _INT64_DIGITS:
        return None
    size = int(significant or "0")
    number = -size if text[0] == "-" else size
    return number if -(2**63) <= number < 2**63 else None


@lru_cache(maxsize=_MOST_SPELT)
def check_key(key: str) -> None:
    """Raise unless `key` is a qualified name: an optional DNS prefix, a slash, a name."""
    if label_key_errors(key):
        raise SelectorError(f"key: Invalid value: {key!r}: not a valid label key")


@lru_cache(maxsize=_MOST_SPELT)
def check_value(value: str) -> None:
    """Raise unless `value` may stand in a label."""
    if LABEL_VALUE.errors(value):
        raise SelectorError(f"values: Invalid value: {value!r}: not a valid label value")


def make_requirement(
    key: str, operator: str, values: Iterable[str] = (), *, numeric: bool = False
) -> Requirement:
    """A checked requirement; `numeric` also allows `Gt` and `Lt` (node selectors)."""
    given = tuple(values)
    chosen = tuple(sorted(set(given)))
    supported = OPERATORS + NUMERIC_OPERATORS if numeric else OPERATORS
    if operator not in supported:
        raise SelectorError(
            f"operator: Unsupported value: {operator!r}: supported values: {', '.join(supported)}"
        )
    if operator in ("In", "NotIn") and not chosen:
        raise SelectorError("values: for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and chosen:
        raise SelectorError("values: values set must be empty for exists and does not exist")
    if operator in NUMERIC_OPERATORS and (len(given) != 1 or parse_int64(chosen[0]) is None):
        raise SelectorError("values: for 'Gt', 'Lt' operators, exactly one integer is required")
    check_key(key)
    for value in chosen:
        check_value(value)
    return Requirement(key, operator, chosen)


def selector_from_labels(labels: Labels) -> Selector:
    """The selector that asks for exactly these labels (Go's `SelectorFromSet`: unchecked)."""
    return Selector(_ordered(Requirement(key, "In", (value,)) for key, value in labels.items()))


def compile_selector(selector: LabelSelector | None) -> Selector:
    """The API's selector as a comparable value; raises `SelectorError` on what it cannot mean."""
    if selector is None:
        return NOTHING
    requirements = [
        make_requirement(key, "In", (value,)) for key, value in selector.match_labels.items()
    ]
    requirements += [
        make_requirement(expr.key, expr.operator, expr.values)
        for expr in selector.match_expressions
    ]
    return Selector(_ordered(requirements))


def _ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(requirements, key=lambda r: (r.key, r.operator, r.values)))
