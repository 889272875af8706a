"""Which features are on: the defaults of a version, changed by what a user sets.

Owns reading `--emulated-version` and its companion, `--feature-gates`, and refusing combinations
that upstream refuses, in its words. Must not know what a feature does. The data is in
`gate_table`, read from `feature_gates.yaml`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from moorage.config.field_errors import aggregate, go_json, quoted
from moorage.config.gate_table import DEPENDENCIES, HISTORY, Gate, Stage
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


BINARY_VERSION = MajorMinor(1, 37)
FLOOR = MajorMinor(1, 34)
"""The oldest version that can be emulated, or be stayed compatible with."""


class EffectiveVersion(msgspec.Struct, frozen=True):
    """The version whose behaviour is shown, and the oldest peer that must understand it."""

    emulation: MajorMinor = BINARY_VERSION
    min_compatibility: MajorMinor = BINARY_VERSION.before()

    @classmethod
    def parse(cls, emulated: Iterable[str], min_compatibility: Iterable[str]) -> "EffectiveVersion":
        """Read the values of both flags, `[kube=]1.36` each; limits are checked by `errors`."""
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


_BULK = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_NOT_THERE = Gate(Stage.PRE_ALPHA, False)


class KnownFeature(msgspec.Struct, frozen=True):
    """A gate that can be set, and how it stands."""

    name: str
    stage: Stage
    enabled: bool
    default: bool


class FeatureGates:
    """The state of every gate; a value, equal to any other with the same settings."""

    __slots__ = ("_known", "_settings", "version")

    def __init__(
        self,
        settings: Mapping[str, bool] | None = None,
        version: EffectiveVersion = CURRENT_VERSION,
    ) -> None:
        """Take the settings of a user by name; a `ConfigError` says why they cannot be had."""
        self.version = version
        self._settings = dict(settings or {})
        self._known = gates_at(version)
        errors = self._setting_errors() or self._dependency_errors()
        if errors:
            raise ConfigError(aggregate(errors))

    @classmethod
    def parse(cls, text: str, version: EffectiveVersion = CURRENT_VERSION) -> "FeatureGates":
        """Read `A=true,B=false`, as given to `--feature-gates`; `kube:` before a name is allowed.

        Where the flag was repeated, the caller joins its values by commas.
        """
        return cls(dict(_setting(item) for item in _without_component(text)), version)

    def enabled(self, name: str) -> bool:
        """Whether a feature is on; an unknown name is a mistake of the caller (`KeyError`)."""
        if name in self._settings:
            return self._settings[name]
        if name in _BULK:
            return False
        gate = self._known[name]
        for bulk, stage in _BULK.items():
            if gate.stage is stage and bulk in self._settings:
                return self._settings[bulk]
        return gate.default

    @property
    def settings(self) -> Mapping[str, bool]:
        """What was set by a user; everything else is as the version has it."""
        return self._settings

    def known(self) -> Iterator[KnownFeature]:
        """Every gate of the version in the order of names, those for whole stages included."""
        for name in sorted([*self._known, *_BULK]):
            gate = self._known.get(name) or Gate(_BULK[name], False)
            if gate.stage is not Stage.PRE_ALPHA:
                yield KnownFeature(name, gate.stage, self.enabled(name), gate.default)

    def warnings(self) -> list[tuple[str, bool, Stage]]:
        """Settings that will be refused one day, as name, value and stage (GA or deprecated)."""
        found: list[tuple[str, bool, Stage]] = []
        for name, value in self._settings.items():
            gate = self._known.get(name, _NOT_THERE)
            if gate.stage in (Stage.GA, Stage.DEPRECATED):
                found.append((name, value, gate.stage))
        return found

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FeatureGates)
            and self._settings == other._settings
            and self.version == other.version
        )

    def __hash__(self) -> int:
        return hash((frozenset(self._settings.items()), self.version))

    def __repr__(self) -> str:
        version = "" if self.version == CURRENT_VERSION else f", {self.version!r}"
        return f"FeatureGates({self._settings!r}{version})"

    def _setting_errors(self) -> list[str]:
        settings = self._settings
        unknown = [name for name in settings if name not in self._known and name not in _BULK]
        if unknown:
            return [f"unrecognized feature gate: {unknown[0]}"]
        errors = []
        for name, value in settings.items():
            gate = self._known.get(name)
            what = f"cannot set feature gate {name} to {go_json(value)}"
            if gate and gate.locked and gate.default != value:
                errors.append(f"{what}, feature is locked to {go_json(gate.default)}")
            elif gate and gate.stage is Stage.PRE_ALPHA:
                errors.append(
                    f"{what}, feature is PreAlpha at emulated version {self.version.emulation}, "
                    f"min compatibility version {self.version.min_compatibility}"
                )
        return errors

    def _dependency_errors(self) -> list[str]:
        errors = []
        for name, needed in DEPENDENCIES.items():
            missing = [other for other in needed if not self.enabled(other)]
            if missing and self.enabled(name):
                errors.append(
                    f"{name} is enabled, but depends on features that are disabled: "
                    f"[{' '.join(missing)}]"
                )
        return errors


@lru_cache(maxsize=8)
def gates_at(version: EffectiveVersion) -> Mapping[str, Gate]:
    """Every gate as it was in a version; one that is younger is there as a pre-alpha one."""
    minor, peers = _minor(version.emulation), _minor(version.min_compatibility)
    return {name: _at(history, minor, peers) for name, history in HISTORY.items()}


def _minor(version: MajorMinor) -> int:
    return version.minor if version.major == 1 else BINARY_VERSION.minor * (version.major - 1)


def _at(history: Mapping[int, Gate], minor: int, peers: int) -> Gate:
    since = max((first for first in history if first <= minor), default=None)
    if since is None:
        return _NOT_THERE
    gate = history[since]
    return msgspec.structs.replace(gate, default=False) if gate.peers and peers < since else gate


def _without_component(text: str) -> Iterable[str]:
    """The items of the flag's value, freed from the name of the component they are meant for."""
    items: dict[str, list[str]] = {}
    for item in text.split(","):
        if item:
            component, colon, setting = item.partition(":")
            component, setting = (component, setting) if colon else ("", item)
            items.setdefault(component.strip(), []).append(setting.strip())
    if "" in items and _COMPONENT in items:
        raise ConfigError(
            "set kube feature gates with default empty prefix or kube: prefix consistently, "
            "do not mix use"
        )
    for component in items:
        if component not in ("", _COMPONENT):
            raise ConfigError(f"component not registered: {component}")
    return [setting for settings in items.values() for setting in settings if setting]


def _setting(item: str) -> tuple[str, bool]:
    name, equals, value = (part.strip() for part in item.partition("="))
    if not equals:
        raise ConfigError(f"missing bool value for {name}")
    try:
        return name, parse_bool(value)
    except ValueError as error:
        raise ConfigError(f"invalid value of {name}={value}, err: {error}") from None


def parse_bool(text: str) -> bool:
    """A boolean as Go spells it; a `ValueError` says that it is none."""
    if text not in TRUE and text not in _FALSE:
        raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return text in TRUE


DEFAULT_FEATURE_GATES = FeatureGates()
"""Every gate at its default; a value like any other, shared because it cannot change."""
