"""The scheduling Policy of Kubernetes up to v1.22, as frozen values read from a file's text.

Owns the fields and the strict reading of them. Must not know what a predicate or priority is called
(`legacy_policy_table`), what is allowed (`legacy_policy_validation`) nor what becomes of it
(`legacy_policy_conversion`).
"""

from collections.abc import Mapping

import msgspec

from moorage.config.args import ResourceSpec, UtilizationShapePoint
from moorage.config.decoding import as_map, decode
from moorage.config.document import parse_document
from moorage.config.field_errors import one_line, quoted
from moorage.config.types import (
    API_VERSION,
    ConfigValue,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    Int32,
    Int64,
)
from moorage.errors import ConfigError

POLICY_KIND = "Policy"
_API_VERSIONS = ("v1", API_VERSION)
POLICY_CONFIG_MAP_KEY = "policy.cfg"
"""Where a ConfigMap holds the policy."""


class ServiceAffinity(ConfigValue, frozen=True):
    """Pods of a service stay on nodes with equal values of these labels."""

    labels: tuple[str, ...] = ()


class LabelsPresence(ConfigValue, frozen=True):
    """Nodes must have all of these labels, or none."""

    labels: tuple[str, ...] = ()
    presence: bool = False


class PredicateArgument(ConfigValue, frozen=True):
    """What makes a predicate a custom one; exactly one field is set."""

    service_affinity: ServiceAffinity | None = None
    labels_presence: LabelsPresence | None = None


class PredicatePolicy(ConfigValue, frozen=True):
    """A condition that nodes must meet."""

    name: str = ""
    argument: PredicateArgument | None = None


class ServiceAntiAffinity(ConfigValue, frozen=True):
    """Pods of a service spread over the values of this label."""

    label: str = ""


class LabelPreference(ConfigValue, frozen=True):
    """Nodes with this label, or without it, are better."""

    label: str = ""
    presence: bool = False


class RequestedToCapacityRatioArguments(ConfigValue, frozen=True):
    """A curve over a node's utilization, and the resources that count."""

    shape: tuple[UtilizationShapePoint, ...] = ()
    resources: tuple[ResourceSpec, ...] = ()


class PriorityArgument(ConfigValue, frozen=True):
    """What makes a priority a custom one; exactly one field is set."""

    service_anti_affinity: ServiceAntiAffinity | None = None
    label_preference: LabelPreference | None = None
    requested_to_capacity_ratio_arguments: RequestedToCapacityRatioArguments | None = None


class PriorityPolicy(ConfigValue, frozen=True):
    """A preference among nodes, and what it weighs."""

    name: str = ""
    weight: Int64 = 0
    argument: PriorityArgument | None = None


class LegacyExtender(ConfigValue, frozen=True):
    """An extender in a policy: unlike today's, its timeout counts nanoseconds."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = False
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Int64 = 0
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class LegacyPolicy(ConfigValue, frozen=True):
    """A whole policy; `None` for predicates or priorities means the default ones."""

    predicates: tuple[PredicatePolicy, ...] | None = None
    priorities: tuple[PriorityPolicy, ...] | None = None
    extenders: tuple[LegacyExtender, ...] = ()
    hard_pod_affinity_symmetric_weight: Int32 = 0
    always_check_all_predicates: bool = False


def parse_policy(text: str | bytes) -> Mapping[str, object]:
    """The plain values of a policy's text, YAML or JSON, for `decode_policy`."""
    try:
        document, repeated = parse_document(text)
        if repeated:
            raise ConfigError(f"strict decoding error: {', '.join(repeated)}")
        return as_map(document)
    except ConfigError as error:
        raise ConfigError(f"invalid policy: {one_line(error)}") from None


def decode_policy(document: Mapping[str, object]) -> LegacyPolicy:
    """The policy that plain values describe; a `ConfigError` names the first wrong field."""
    try:
        fields = as_map(document)
        _check_kind(fields.pop("apiVersion", None), fields.pop("kind", None))
        _fold_extender_names(fields)
        unknown: list[str] = []
        policy = decode(LegacyPolicy, fields, unknown)
        if unknown:
            raise ConfigError(f"strict decoding error: {', '.join(unknown)}")
        return policy
    except ConfigError as error:
        raise ConfigError(f"invalid policy: {one_line(error)}") from None


def _check_kind(api_version: object, kind: object) -> None:
    for value, name in ((kind, "Kind"), (api_version, "apiVersion")):
        if value is None or value == "":
            raise ConfigError(f"Object '{name}' is missing")
    if kind != POLICY_KIND or api_version not in _API_VERSIONS:
        raise ConfigError(
            f"no kind {quoted(str(kind))} is registered for version {quoted(str(api_version))}; "
            f'a scheduling policy has kind "{POLICY_KIND}" and apiVersion "{_API_VERSIONS[0]}"'
        )


def _fold_extender_names(fields: dict[str, object]) -> None:
    """Upstream takes the fields of extenders in any case (`enableHTTPS`) and skips unknown ones."""
    for extender in _fold(fields, "extenders", LegacyExtender):
        _fold(extender, "managedResources", ExtenderManagedResource)
        tls = extender.get("tlsConfig")
        if isinstance(tls, Mapping):
            extender["tlsConfig"] = _folded(tls, ExtenderTLSConfig)


def _fold(fields: dict[str, object], name: str, kind: type[ConfigValue]) -> list[dict[str, object]]:
    """Fold the names in a list of maps; anything else is left for the decoder to refuse."""
    items = fields.get(name)
    if not isinstance(items, list):
        return []
    folded = [_folded(item, kind) if isinstance(item, Mapping) else item for item in items]
    fields[name] = folded
    return [item for item in folded if isinstance(item, dict)]


def _folded(value: Mapping[str, object], kind: type[ConfigValue]) -> dict[str, object]:
    names = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)}
    return {
        names[str(name).lower()]: item for name, item in value.items() if str(name).lower() in names
    }
