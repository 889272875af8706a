"""From a configuration back to plain values in the form of `kubescheduler.config.k8s.io/v1`.

Owns which fields upstream writes and which it leaves out when they are empty. Must not read
anything back, nor choose between YAML and JSON: the caller prints the values.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.config.args import (
    DefaultSpreadConstraint,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    ResourceSpec,
    UtilizationShapePoint,
)
from moorage.config.types import (
    API_VERSION,
    KIND,
    ClientConnectionConfiguration,
    ExtenderConfig,
    ExtenderManagedResource,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    PluginArgs,
    PluginConfig,
    PluginRef,
)
from moorage.model.duration import Duration
from moorage.redaction import MASK, redacted_url

_WRITTEN_WHEN_EMPTY: Mapping[type, frozenset[str]] = {
    ClientConnectionConfiguration: frozenset(ClientConnectionConfiguration.__struct_fields__),
    DynamicResourcesArgs: frozenset(("filter_timeout",)),
    ExtenderConfig: frozenset(("url_prefix",)),
    ExtenderManagedResource: frozenset(("name",)),
    InterPodAffinityArgs: frozenset(("ignore_preferred_terms_of_existing_pods",)),
    KubeSchedulerConfiguration: frozenset(("enable_profiling", "enable_contention_profiling")),
    LeaderElectionConfiguration: frozenset(LeaderElectionConfiguration.__struct_fields__),
    PluginConfig: frozenset(("name", "args")),
    PluginRef: frozenset(("name",)),
    ResourceSpec: frozenset(("name",)),
    DefaultSpreadConstraint: frozenset(("topology_key", "when_unsatisfiable")),
    UtilizationShapePoint: frozenset(UtilizationShapePoint.__struct_fields__),
}
"""Fields that stand in the output even when they hold nothing; numbers mostly do."""

_ZERO_IS_EMPTY = (ExtenderConfig,)


def encode_config(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The whole configuration, with the kinds of itself and of all plugin arguments."""
    return {"apiVersion": API_VERSION, "kind": KIND, **_struct(config)}


def shown_config(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The whole configuration as logs and pages show it: without passwords and keys."""
    plain = encode_config(config)
    for extender in plain.get("extenders", ()):
        extender["urlPrefix"] = redacted_url(extender["urlPrefix"])
        if "keyData" in extender.get("tlsConfig", {}):
            extender["tlsConfig"]["keyData"] = MASK
    return plain


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    written = _WRITTEN_WHEN_EMPTY.get(type(value), frozenset())
    result: dict[str, Any] = {}
    if isinstance(value, PluginArgs):
        result = {"apiVersion": API_VERSION, "kind": type(value).__name__}
    for field in msgspec.structs.fields(type(value)):
        item = getattr(value, field.name)
        is_empty = item is None or item is False or item in ("", (), b"")
        is_empty |= item == 0 and type(value) in _ZERO_IS_EMPTY
        if not is_empty or field.name in written:
            result[field.encode_name] = _plain(item)
    return result


def _plain(value: object) -> object:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)  # upstream writes no ".0"
    if isinstance(value, msgspec.Struct):
        return _struct(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)
