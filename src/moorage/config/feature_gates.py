"""Which features are on: the defaults of 1.36, changed by what a user sets.

Owns reading `--feature-gates` and refusing combinations that upstream refuses, in its words. Must
not know what a feature does. The data is in `gate_table`; only version 1.36 is known, so there is
no emulation of older ones.
"""

from collections.abc import Iterable, Mapping

from moorage.config.field_errors import aggregate, quoted
from moorage.config.gate_table import DEPENDENCIES, GATES, Stage
from moorage.errors import ConfigError

_BULK = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_COMPONENT = "kube"


class FeatureGates:
    """The state of every gate; a value, equal to any other with the same settings."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Mapping[str, bool] | None = None) -> None:
        """Take the settings of a user by name; a `ConfigError` says why they cannot be had."""
        self._settings = dict(settings or {})
        errors = _setting_errors(self._settings) or self._dependency_errors()
        if errors:
            raise ConfigError(aggregate(errors))

    @classmethod
    def parse(cls, text: str) -> "FeatureGates":
        """Read `A=true,B=false`, as given to `--feature-gates`; `kube:` before a name is allowed.

        Where the flag was repeated, the caller joins its values by commas.
        """
        return cls(dict(_setting(item) for item in _without_component(text)))

    def enabled(self, name: str) -> bool:
        """Whether a feature is on; an unknown name is a mistake of the caller (`KeyError`)."""
        if name in self._settings:
            return self._settings[name]
        if name in _BULK:
            return False
        gate = GATES[name]
        for bulk, stage in _BULK.items():
            if gate.stage is stage and bulk in self._settings:
                return self._settings[bulk]
        return gate.default

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureGates) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(frozenset(self._settings.items()))

    def __repr__(self) -> str:
        return f"FeatureGates({self._settings!r})"

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


def _setting_errors(settings: Mapping[str, bool]) -> list[str]:
    unknown = [name for name in settings if name not in GATES and name not in _BULK]
    if unknown:
        return [f"unrecognized feature gate: {unknown[0]}"]
    errors = []
    for name, value in settings.items():
        gate = GATES.get(name)
        if gate and gate.locked and gate.default != value:
            errors.append(
                f"cannot set feature gate {name} to {_shown(value)}, "
                f"feature is locked to {_shown(gate.default)}"
            )
    return errors


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
    if value not in _TRUE | _FALSE:
        raise ConfigError(
            f"invalid value of {name}={value}, "
            f"err: strconv.ParseBool: parsing {quoted(value)}: invalid syntax"
        )
    return name, value in _TRUE


def _shown(value: bool) -> str:
    return "true" if value else "false"


DEFAULT_FEATURE_GATES = FeatureGates()
"""Every gate at its default; a value like any other, shared because it cannot change."""
