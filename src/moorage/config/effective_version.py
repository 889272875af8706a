"""Which Kubernetes version a process behaves like: `--emulated-version` and its companion.

Owns reading the two flags and the limits of 1.36, in upstream's words. Must not know any feature:
what a version means for one is in `gate_table`.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from moorage.config.field_errors import quoted
from moorage.errors import ConfigError

_COMPONENT = "kube"
_NUMBERS = re.compile(r"\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_EXTRA = re.compile(
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?\s*"
)
_MAX_UINT64 = 2**64 - 1


class MajorMinor(msgspec.Struct, frozen=True, order=True):
    """A version without its patch number."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    def before(self) -> "MajorMinor":
        """The version one minor number earlier."""
        return MajorMinor(self.major, max(self.minor - 1, 0))


BINARY_VERSION = MajorMinor(1, 36)
FLOOR = MajorMinor(1, 33)
"""The oldest version that can be emulated, or be stayed compatible with."""


class EffectiveVersion(msgspec.Struct, frozen=True):
    """The version whose behaviour is shown, and the oldest peer that must understand it."""

    emulation: MajorMinor = BINARY_VERSION
    min_compatibility: MajorMinor = BINARY_VERSION.before()

    @classmethod
    def parse(cls, emulated: Iterable[str], min_compatibility: Iterable[str]) -> "EffectiveVersion":
        """Read the values of both flags, `[kube=]1.35` each; limits are checked by `errors`."""
        emulation = _versions(emulated).get(_COMPONENT, BINARY_VERSION)
        oldest = _versions(min_compatibility).get(_COMPONENT)
        return cls(emulation, oldest or max(emulation.before(), FLOOR))

    def errors(self) -> list[str]:
        """Where the versions are out of bounds."""
        found = []
        if not FLOOR <= self.emulation <= BINARY_VERSION:
            found.append(
                f"emulation version {self.emulation} is not between [{FLOOR}, {BINARY_VERSION}.0]"
            )
        if not FLOOR <= self.min_compatibility <= self.emulation:
            found.append(
                f"minCompatibilityVersion version {self.min_compatibility} is not between "
                f"[{FLOOR}, {self.emulation}]"
            )
        return found


CURRENT_VERSION = EffectiveVersion()
"""What a process is that was not told to be anything else."""


def parse_semantic(text: str) -> tuple[int, ...]:
    """The three numbers of a strict version; a `ConfigError` says what is wrong with it."""
    numbers, extra = _split(text)
    if len(numbers) != 3:
        raise ConfigError(f"illegal version string {quoted(text)}")
    components = tuple(_component(number, text, may_lead_with_zero=False) for number in numbers)
    if extra:
        parts = _EXTRA.fullmatch(extra)
        if parts is None:
            raise ConfigError(
                f"could not parse pre-release/metadata ({extra}) in version {quoted(text)}"
            )
        for part in (parts[1] or "").split("."):
            if part.isdecimal():
                _component(part, text, may_lead_with_zero=False)
    return components


def _versions(values: Iterable[str]) -> Mapping[str, MajorMinor]:
    """The version given for each component."""
    shown: dict[str, str] = {}
    versions: dict[str, MajorMinor] = {}
    for value in values:
        component, text = _COMPONENT, value
        if "=" in value:
            component, text = (part.strip() for part in value.split("=", 1))
        numbers, name = _parse_generic(text)
        if len(numbers) > 2 and numbers[2] != 0:
            raise ConfigError(f"patch version not allowed, got: {component}={name}")
        if component in versions:
            raise ConfigError(
                f"duplicate version flag, {component}={shown[component]} and {component}={name}"
            )
        shown[component] = name
        versions[component] = MajorMinor(numbers[0], numbers[1])
    for component in versions:
        if component != _COMPONENT:
            raise ConfigError(f"component not registered: {component}")
    return versions


def _parse_generic(text: str) -> tuple[tuple[int, ...], str]:
    """The numbers of a version, and how it is printed (only strict ones keep what follows)."""
    try:
        components = parse_semantic(text)
        extra = _split(text)[1].strip()
    except ConfigError:
        numbers, extra = _split(text)[0], ""
        if len(numbers) < 2:
            raise ConfigError(f"illegal version string {quoted(text)}") from None
        components = tuple(
            _component(number, text, may_lead_with_zero=index > 0)
            for index, number in enumerate(numbers)
        )
    return components, ".".join(map(str, components)) + extra


def _split(text: str) -> tuple[list[str], str]:
    match = _NUMBERS.fullmatch(text)
    if match is None or "\n" in match[2]:
        raise ConfigError(f"could not parse {quoted(text)} as version")
    return match[1].split("."), match[2]


def _component(number: str, text: str, *, may_lead_with_zero: bool) -> int:
    if number.startswith("0") and number != "0" and not may_lead_with_zero:
        raise ConfigError(
            f"illegal zero-prefixed version component {quoted(number)} in {quoted(text)}"
        )
    if len(number) > 20 or int(number) > _MAX_UINT64:
        raise ConfigError(
            f"illegal non-numeric version component {quoted(number)} in {quoted(text)}: "
            f"strconv.ParseUint: parsing {quoted(number)}: value out of range"
        )
    return int(number)
