"""From a file's text to a configuration that can be used.

Owns the order of the steps (read, decode, complete, validate) and what is said about a file as a
whole: its kind and version, and the kinds of nested plugin arguments. Must not hold rules or
defaults of single fields. Every failure is a `ConfigError` of one line that begins with the source.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.decoding import as_map, decode
from moorage.config.defaulting import complete_args, with_defaults
from moorage.config.documents import parse_document
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.config.field_errors import one_line, quoted
from moorage.config.types import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    ConfigValue,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)
from moorage.config.validation import validate
from moorage.errors import ConfigError

T = TypeVar("T")

_GROUP = API_VERSION.split("/")[0]
_SCHEME = "pkg/scheduler/apis/config/scheme/scheme.go:29"
"""Upstream's name for its table of kinds, which is part of its message about an unknown kind."""
_ARGS_KINDS = frozenset(kind.__name__ for kind in ARGS_OF_PLUGIN.values())


class _TypeMeta(ConfigValue, frozen=True):
    """What an object says to be."""

    api_version: str = ""
    kind: str = ""


def load_config(
    text: str | bytes, source: str, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """Read a whole configuration, complete it, and validate it."""
    config = read_config(text, source, gates)
    validate_config(config, source, gates)
    return config


def read_config(
    text: str | bytes, source: str, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerConfiguration:
    """Read and complete a configuration without validating it.

    For a command that lays flags over the file first, as kube-scheduler does.
    """

    def read() -> KubeSchedulerConfiguration:
        document, repeated = parse_document(text)
        fields = as_map(document)
        _check_kind(*_type_meta(fields))
        return _decode_config(fields, repeated, gates)

    return _named(source, read)


def validate_config(
    config: KubeSchedulerConfiguration, source: str, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> None:
    """Check a complete configuration; the error names the source like those of reading."""
    _named(source, lambda: validate(config, gates))


def load_profile(
    profile: Mapping[str, object], source: str, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> KubeSchedulerProfile:
    """Load a single profile given as decoded JSON, as if it were the only one of a file."""

    def load() -> KubeSchedulerProfile:
        config = _decode_config({"profiles": [profile]}, [], gates)
        validate(config, gates)
        return config.profiles[0]

    return _named(source, load)


def default_config(gates: FeatureGates = DEFAULT_FEATURE_GATES) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that was given none."""
    return _decode_config({}, [], gates)


def _named(source: str, step: Callable[[], T]) -> T:
    try:
        return step()
    except ConfigError as error:
        raise ConfigError(f"{source}: {one_line(error)}") from None


def _type_meta(fields: dict[str, object]) -> tuple[str, str]:
    """Take version and kind out of an object's fields; empty where it has none."""
    meta = {name: fields.pop(name, None) for name in ("apiVersion", "kind")}
    decoded = decode(_TypeMeta, meta, [])
    return decoded.api_version, decoded.kind


def _check_kind(api_version: str, kind: str) -> None:
    if not kind:
        raise ConfigError("Object 'Kind' is missing")
    if not api_version:
        raise ConfigError("Object 'apiVersion' is missing")
    _check_registered(api_version, kind)
    if kind != KIND:
        raise ConfigError(f"couldn't decode as {KIND}, got {api_version}, Kind={kind}: ")


def _check_registered(api_version: str, kind: str) -> None:
    if api_version.count("/") > 1:
        raise ConfigError(f"unexpected GroupVersion string: {api_version}")
    if api_version != API_VERSION or (kind != KIND and kind not in _ARGS_KINDS):
        raise ConfigError(
            f"no kind {quoted(kind)} is registered for version {quoted(api_version)} "
            f"in scheme {quoted(_SCHEME)}"
        )


def _decode_config(
    fields: Mapping[str, object], repeated: list[str], gates: FeatureGates
) -> KubeSchedulerConfiguration:
    strict = list(repeated)
    config = decode(KubeSchedulerConfiguration, fields, strict)
    profiles = tuple(
        _decode_args(index, profile, strict, gates) for index, profile in enumerate(config.profiles)
    )
    if strict:
        raise ConfigError(_strict(strict))
    if not profiles:
        profiles = (KubeSchedulerProfile(),)
    if len(profiles) == 1 and _has_no_name(fields.get("profiles")):
        profiles = (msgspec.structs.replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME),)
    return with_defaults(msgspec.structs.replace(config, profiles=profiles), gates)


def _has_no_name(profiles: object) -> bool:
    """Whether the only profile leaves its name out; an empty name is given, and refused later."""
    first = profiles[0] if isinstance(profiles, list) and profiles else None
    return not isinstance(first, Mapping) or first.get("schedulerName") is None


def _decode_args(
    index: int, profile: KubeSchedulerProfile, strict: list[str], gates: FeatureGates
) -> KubeSchedulerProfile:
    entries = []
    for number, entry in enumerate(profile.plugin_config):
        unknown: list[str] = []
        where = f"decoding .profiles[{index}].pluginConfig[{number}]"
        try:
            entries.append(_decode_entry(entry, unknown, gates))
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
        if unknown:
            what = f"decoding args for plugin {entry.name}: {_strict(unknown)}"
            strict.append(f"{where}: {_strict([what])}")
    return msgspec.structs.replace(profile, plugin_config=tuple(entries))


def _decode_entry(entry: PluginConfig, unknown: list[str], gates: FeatureGates) -> PluginConfig:
    kind = ARGS_OF_PLUGIN.get(entry.name)
    if kind is None:
        return entry
    try:
        given = as_map(entry.args)
        api_version, actual = _type_meta(given)
        api_version, actual = api_version or API_VERSION, actual or kind.__name__
        _check_registered(api_version, actual)
        if actual == kind.__name__:
            args = decode(kind, given, unknown)
            return PluginConfig(entry.name, complete_args(args, given, gates))
    except ConfigError as error:
        raise ConfigError(f"decoding args for plugin {entry.name}: {error}") from None
    raise ConfigError(
        f"args for plugin {entry.name} were not of type {kind.__name__}.{_GROUP}, "
        f"got {actual}.{_GROUP}"
    )


def _strict(problems: list[str]) -> str:
    return "strict decoding error: " + ", ".join(problems)
