"""The scheduling Policy of Kubernetes up to v1.22, as frozen values read from a file's text.

Owns the fields, the strict reading of them, and what v1.21 checked before it used a policy, in its
words. Must not know what a predicate or priority is called (`legacy_policy.yaml`) nor what becomes
of it (`legacy_policy_conversion`).
"""

from collections.abc import Mapping

import msgspec

from moorage.config.args import ResourceSpec, UtilizationShapePoint
from moorage.config.decoding import as_map, decode
from moorage.config.documents import parse_document
from moorage.config.field_errors import aggregate, invalid, one_line, quoted
from moorage.config.types import (
    API_VERSION,
    ConfigValue,
    ExtenderConfig,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    Int32,
    Int64,
)
from moorage.config.validation import extenders_errors
from moorage.errors import ConfigError
from moorage.model.duration import Duration

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


class _Timeout(ConfigValue, frozen=True):
    """The one field of an extender that was another then: it counts nanoseconds."""

    http_timeout: Int64 = 0


class LegacyPolicy(ConfigValue, frozen=True):
    """A whole policy; `None` for predicates or priorities means the default ones."""

    predicates: tuple[PredicatePolicy, ...] | None = None
    priorities: tuple[PriorityPolicy, ...] | None = None
    extenders: tuple[ExtenderConfig, ...] = ()
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
        _fold_extenders(fields)
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


def _fold_extenders(fields: dict[str, object]) -> None:
    """Extenders in today's form.

    Upstream takes their fields in any case (`enableHTTPS`) and skips unknown ones.
    """
    for index, extender in enumerate(_fold(fields, "extenders", ExtenderConfig)):
        _fold(extender, "managedResources", ExtenderManagedResource)
        tls = extender.get("tlsConfig")
        if isinstance(tls, Mapping):
            extender["tlsConfig"] = _folded(tls, ExtenderTLSConfig)
        try:
            given = decode(_Timeout, {"httpTimeout": extender.get("httpTimeout")}, [])
        except ConfigError as error:
            raise ConfigError(f"extenders[{index}].{error}") from None
        extender["httpTimeout"] = str(Duration(given.http_timeout))


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


_WEIGHT_LIMIT = (2**63 - 1) // 10
_LARGEST_WEIGHT = 2**31 - 1
_CUSTOM_PRIORITIES = {
    "label_preference": "LabelPreference",
    "service_anti_affinity": "ServiceAntiAffinity",
    "requested_to_capacity_ratio_arguments": "RequestedToCapacityRatio",
}


def validate_policy(policy: LegacyPolicy) -> None:
    """Raise a `ConfigError` that lists everything that is wrong with a policy."""
    errors = _priorities_errors(policy.priorities or ())
    errors += extenders_errors(policy.extenders)
    weight = policy.hard_pod_affinity_symmetric_weight
    if not 0 <= weight <= 100:
        path = "hardPodAffinitySymmetricWeight"
        errors.append(invalid(path, weight, "not in valid range [0-100]"))
    for predicate in policy.predicates or ():
        errors += _count_errors("predicate", predicate)
    for priority in policy.priorities or ():
        errors += _count_errors("priority", priority)
    if errors:
        raise ConfigError(aggregate(errors))


def _priorities_errors(priorities: tuple[PriorityPolicy, ...]) -> list[str]:
    errors = []
    earlier: dict[str, PriorityPolicy] = {}
    for priority in priorities:
        if not 0 < priority.weight < _WEIGHT_LIMIT:
            errors.append(
                f"priority {priority.name} should have a positive weight applied to it "
                "or it has overflown"
            )
        elif priority.weight > _LARGEST_WEIGHT:
            # v1.21 cut such a weight to 32 bits without a word.
            errors.append(
                f"priority {priority.name} has weight {priority.weight}, "
                f"but a plugin's weight is at most {_LARGEST_WEIGHT}"
            )
        errors += _custom_errors(priority, earlier)
    return errors


def _custom_errors(priority: PriorityPolicy, earlier: dict[str, PriorityPolicy]) -> list[str]:
    """Custom priorities of one kind become one plugin, which has one weight and one curve."""
    if priority.argument is None:
        return []
    given = _given(priority.argument)
    if not given:
        return [f"no priority arguments set for priority {priority.name}"]
    kind = next(name for field, name in _CUSTOM_PRIORITIES.items() if field in given)
    existing = earlier.get(kind)
    if existing is not None and kind == "RequestedToCapacityRatio":
        return [
            f"priority {quoted(priority.name)} redeclares custom priority {quoted(kind)}, "
            f"from: {quoted(existing.name)}"
        ]
    if existing is not None and existing.weight != priority.weight:
        return [
            f"{kind}  priority {quoted(priority.name)} has a different weight with "
            f"{quoted(existing.name)}"
        ]
    earlier[kind] = priority
    return []


def _count_errors(what: str, item: PredicatePolicy | PriorityPolicy) -> list[str]:
    if item.argument is None:
        return []
    given = len(_given(item.argument))
    if given == 1 or (what == "priority" and given == 0):  # the latter was said already
        return []
    return [f"exactly 1 {what} argument is required, numArgs: {given}, {what} {quoted(item.name)}"]


def _given(argument: PredicateArgument | PriorityArgument) -> list[str]:
    fields = argument.__struct_fields__
    return [field for field in fields if getattr(argument, field) is not None]
