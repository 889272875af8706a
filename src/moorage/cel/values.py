"""CEL's values in Python, and what is equal, smaller, or of which type among them.

bool, int, float, str, bytes, None, list and dict stand for themselves. Booleans are ints in Python
and not in CEL, so everything here looks at the exact class.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from moorage.cel.errors import EvaluationError, no_such_overload, require_tree
from moorage.cel.named_formats import NamedFormat
from moorage.cel.network import ADDRESSES, NETWORKS, URL
from moorage.cel.times import Timestamp
from moorage.model.duration import Duration
from moorage.model.quantity import parse_nano

MAX_INT = 2**63 - 1
MIN_INT = -(2**63)
MAX_UINT = 2**64 - 1
_NANO = 10**9
_UINT_DIGITS = 20
_KNOWN_QUANTITY = 64
"""Longer texts are not cached."""


class Uint(int):
    """An unsigned integer."""


class Quantity(NamedTuple):
    """A Kubernetes quantity, in billionths."""

    nano: int


class ComputedQuantity(Quantity):
    """What `add` and `sub` give; on the right of `==` upstream does not take it for a quantity."""


class Semver(NamedTuple):
    """A semantic version; builds do not count in comparisons."""

    numbers: tuple[int, int, int]
    pre_release: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts as semver.org says: a pre-release comes before its release."""
        parts = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.pre_release
        )
        return (self.numbers, not self.pre_release, parts)


class Optional(NamedTuple):
    """A value that may be absent."""

    present: bool
    value: object = None


class TypeValue(NamedTuple):
    """A type used as a value, as in `type(x) == string`."""

    name: str


EMPTY: Mapping[str, Any] = {}


class DefaultMap(dict[str, Any]):
    """A map in which every key can be looked up: what is absent is an empty map, or the default.

    Devices' attributes and capacities are kept by domain in such maps, so that a selector need not
    ask for the domain first.
    """

    def __init__(self, entries: Mapping[str, Any] = EMPTY, default: Any = EMPTY) -> None:
        super().__init__(entries)
        self.default = default


KINDS: Mapping[type, str] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    Quantity: "kubernetes.Quantity",
    ComputedQuantity: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
    Optional: "optional_type",
    TypeValue: "type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    **dict.fromkeys(ADDRESSES, "net.IP"),
    **dict.fromkeys(NETWORKS, "net.CIDR"),
    URL: "kubernetes.URL",
    NamedFormat: "kubernetes.NamedFormat",
}

_GO_TYPES: Mapping[type, str] = {
    type(None): "types.Null",
    list: "*types.baseList",
    dict: "*types.baseMap",
    DefaultMap: "cel.mapper",
    Optional: "*types.Optional",
    TypeValue: "*types.Type",
    Quantity: "cel.Quantity",
    ComputedQuantity: "*cel.Quantity",
    Semver: "cel.Semver",
    **dict.fromkeys(ADDRESSES, "cel.IP"),
    **dict.fromkeys(NETWORKS, "cel.CIDR"),
    URL: "cel.URL",
    NamedFormat: "*cel.Format",
}
_CONTAINERS = (list, dict, DefaultMap, Optional)
_NUMBERS = (int, Uint, float)
_ORDERED = (bool, str, bytes, Duration, Timestamp)
PARTICULAR = (Quantity, ComputedQuantity, Semver, URL, NamedFormat, *ADDRESSES, *NETWORKS)
"""The types that Kubernetes adds; with others they cannot be compared."""
_SEMVER = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)


def kind_of(value: object) -> str:
    """The name of a value's type."""
    return KINDS.get(type(value), "dyn")


def go_type(value: object) -> str:
    """What upstream's complaints call the type of a value."""
    kind = type(value)
    if kind in (Duration, Timestamp):
        return f"types.{kind.__name__}"
    return _GO_TYPES.get(kind) or f"types.{kind_of(value).capitalize()}"


def equals(left: Any, right: Any) -> bool:
    """CEL's equality: numbers compare by value, other types only with their like.

    On the left, the types that Kubernetes adds refuse to be compared with other ones.
    """
    if type(left) in _CONTAINERS and type(right) in _CONTAINERS:
        require_tree(left)
    return _equals(left, right)


def _equals(left: Any, right: Any) -> bool:
    kind, other = type(left), type(right)
    if kind is other and kind is not ComputedQuantity:
        if kind is list:
            return len(left) == len(right) and not any(map(_differ, left, right))
        if kind is dict or kind is DefaultMap:
            return len(left) == len(right) and all(
                key in right and not _differ(value, right[key]) for key, value in left.items()
            )
        if kind is Semver:
            return bool(left.order == right.order)
        if kind is Optional:
            return left.present is right.present and _equals(left.value, right.value)
        return bool(left == right)
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(left == right)
    if issubclass(kind, dict) and issubclass(other, dict):
        return _equals(dict(left), dict(right))
    if kind is ComputedQuantity and other is Quantity:
        return bool(left == right)
    if any(kind in versions and other in versions for versions in (ADDRESSES, NETWORKS)):
        return False
    if kind in PARTICULAR and right is not None:
        raise no_such_overload()
    return False


def surely_equal(left: Any, right: Any) -> bool:
    """Equality for searches and `!=`, to which what cannot be compared is not equal."""
    try:
        return equals(left, right)
    except EvaluationError:
        return False


def _differ(left: Any, right: Any) -> bool:
    """Inequality for parts of lists and maps, in which what cannot be compared does not differ."""
    try:
        return not _equals(left, right)
    except EvaluationError:
        return False


def compare(function: str, left: Any, right: Any) -> int:
    """-1, 0 or 1 for values that have an order."""
    kind, other = type(left), type(right)
    ordered = kind is other and kind in _ORDERED
    if not ordered and not (kind in _NUMBERS and other in _NUMBERS):
        if kind in _ORDERED or kind in _NUMBERS:
            raise no_such_overload()
        raise EvaluationError(f"no such overload: {function}")
    return int(left > right) - int(left < right)


def incapable(function: str, value: Any) -> EvaluationError:
    """A value cannot do what a function wants; those that have methods of their own say less."""
    if type(value) in (str, Duration, Timestamp):
        return no_such_overload()
    return EvaluationError(f"no such overload: {function}")


def parse_quantity(text: str) -> Quantity:
    """A quantity as the API writes it."""
    parse = parse_nano if len(text) <= _KNOWN_QUANTITY else parse_nano.__wrapped__
    try:
        return Quantity(parse(text))
    except ValueError:
        raise EvaluationError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        ) from None


def quantity_as_int(quantity: Quantity) -> int | None:
    """The whole number a quantity is; None if it is not one, or too large."""
    whole, rest = divmod(quantity.nano, _NANO)
    return None if rest or not MIN_INT <= whole <= MAX_INT else whole


def parse_semver(text: str, *, normalize: bool = False) -> Semver:
    """A semantic version; `normalize` takes forms such as `v1.2` as well."""
    if normalize:
        text = _normalized(text)
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise EvaluationError(_semver_complaint(text))
    *numbers, pre_release, _ = match.groups()
    parts = tuple(pre_release.split(".")) if pre_release else ()
    if any(not part or (part.isdigit() and len(part) > 1 and part[0] == "0") for part in parts):
        raise EvaluationError(f'Invalid character(s) found in prerelease "{pre_release}"')
    for part in (*numbers, *filter(str.isdigit, parts)):
        if len(part) > _UINT_DIGITS or int(part) > MAX_UINT:
            raise EvaluationError(f'strconv.ParseUint: parsing "{part}": value out of range')
    major, minor, patch = map(int, numbers)
    return Semver((major, minor, patch), parts)


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[i] = stripped if stripped[:1].isdigit() else f"0{stripped}"
    if len(parts) < 3 and any(mark in parts[-1] for mark in "+-"):
        raise EvaluationError("short version cannot contain PreRelease/Build meta data")
    return ".".join([*parts, "0", "0"][:3])


def _semver_complaint(text: str) -> str:
    if not text:
        return "Version string empty"
    if text.count(".") < 2:
        return "No Major.Minor.Patch elements found"
    names = ("major", "minor", "patch")
    for name, part in zip(names, re.split(r"[+-]", text, maxsplit=1)[0].split("."), strict=False):
        if not part:
            return 'strconv.ParseUint: parsing "": invalid syntax'
        if not part.isdigit():
            return f'Invalid character(s) found in {name} number "{part}"'
        if len(part) > 1 and part[0] == "0":
            return f'{name.capitalize()} number must not contain leading zeroes "{part}"'
    return f'Invalid character(s) found in version "{text}"'
