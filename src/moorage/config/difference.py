"""What differs between two configurations once both are complete.

Owns the comparison: plugins by what runs at each extension point, extenders by address, everything
else field by field. Must not print anything.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from moorage.config.encoding import encode_config
from moorage.config.plugins import EffectivePlugins, Implements, effective_profiles
from moorage.config.types import ExtensionPoint, KubeSchedulerConfiguration
from moorage.redaction import redacted_url

_WEIGHING = (ExtensionPoint.SCORE, ExtensionPoint.PLACEMENT_SCORE)
_UNORDERED = (*_WEIGHING, ExtensionPoint.PRE_SCORE)
"""Points where all plugins are asked and the order of asking shows nowhere."""

_PRESENT = "a whole profile"


class Difference(msgspec.Struct, frozen=True):
    """One thing that differs; `None` stands for the side that does not have it.

    The path begins at the profile if it has one; the profile itself has the empty path.
    """

    path: str
    before: Any
    after: Any
    profile: str | None = None


def differences(
    before: KubeSchedulerConfiguration, after: KubeSchedulerConfiguration, implements: Implements
) -> list[Difference]:
    """Everything that differs between two loaded configurations.

    A `ConfigError` means that no scheduler can be built from one of them.
    """
    left, right = _Side(before, implements), _Side(after, implements)
    found = list(_fields("", left.general, right.general))
    for name in dict.fromkeys((*left.profiles, *right.profiles)):
        if name in left.profiles and name in right.profiles:
            found += [
                msgspec.structs.replace(one, profile=name) for one in _profile(left, right, name)
            ]
        else:
            old, new = (_PRESENT if name in side.profiles else None for side in (left, right))
            found.append(Difference("", old, new, profile=name))
    return found


class _Side:
    """A configuration in the forms in which it is compared."""

    def __init__(self, config: KubeSchedulerConfiguration, implements: Implements) -> None:
        plain = encode_config(config)
        self.profiles: dict[str, Any] = {
            profile["schedulerName"]: profile for profile in plain.pop("profiles")
        }
        self.effective: Mapping[str, EffectivePlugins] = effective_profiles(config, implements)
        extenders = _by_address(plain.pop("extenders", []))
        self.general: dict[str, Any] = {**plain, **extenders}


def _by_address(extenders: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Extenders under a name each; those with one address are told apart by their place."""
    result: dict[str, Any] = {}
    for extender in extenders:
        name = f"extenders[{redacted_url(extender['urlPrefix'])}]"
        number = sum(1 for other in result if other == name or other.startswith(f"{name}#"))
        result[f"{name}#{number + 1}" if number else name] = extender
    return result


def _fields(path: str, before: Any, after: Any) -> Iterator[Difference]:
    """Compare maps field by field and anything else as a whole."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            here = f"{path}.{name}" if path else name
            yield from _fields(here, before.get(name), after.get(name))
    elif before != after:
        yield Difference(path, before, after)


def _profile(left: _Side, right: _Side, name: str) -> Iterator[Difference]:
    before, after = left.profiles[name], right.profiles[name]
    field = "percentageOfNodesToScore"
    yield from _fields(field, before.get(field), after.get(field))
    for point in ExtensionPoint:
        yield from _point(point, left.effective[name], right.effective[name])
    shared = _running(left.effective[name]) & _running(right.effective[name])
    yield from _fields("pluginConfig", _args(before, shared), _args(after, shared))


def _point(
    point: ExtensionPoint, before: EffectivePlugins, after: EffectivePlugins
) -> Iterator[Difference]:
    path = f"plugins.{point.value}"
    old, new = _values(point, before), _values(point, after)
    for name in dict.fromkeys((*old, *new)):
        yield from _fields(f"{path}[{name}]", old.get(name), new.get(name))
    old_order = [name for name in old if name in new]
    new_order = [name for name in new if name in old]
    if old_order != new_order and point not in _UNORDERED:
        yield Difference(f"{path} order", old_order, new_order)


def _values(point: ExtensionPoint, plugins: EffectivePlugins) -> dict[str, Any]:
    """The plugins of a point in order, with what there is to say about each."""
    if point not in _WEIGHING:
        return dict.fromkeys(plugins.at(point), "enabled")
    weights = plugins.weights if point is ExtensionPoint.SCORE else plugins.placement_weights
    return {name: f"weight {weights[name]}" for name in plugins.at(point)}


def _running(plugins: EffectivePlugins) -> frozenset[str]:
    return frozenset(name for names in plugins.by_point.values() for name in names)


def _args(profile: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """The arguments of plugins that run on both sides; of the others the points tell enough."""
    return {
        entry["name"]: entry["args"]
        for entry in profile.get("pluginConfig", [])
        if entry["name"] in names
    }
