"""The rules of a policy.

Owns what v1.21 checked before it used a policy, in its words. Must not change the policy.
"""

import msgspec

from moorage.config.duration import Duration
from moorage.config.field_errors import aggregate, invalid, quoted
from moorage.config.legacy_policy import (
    LegacyExtender,
    LegacyPolicy,
    PredicatePolicy,
    PriorityPolicy,
)
from moorage.config.types import ExtenderConfig
from moorage.config.validation import extenders_errors
from moorage.errors import ConfigError

_WEIGHT_LIMIT = (2**63 - 1) // 10
_LARGEST_WEIGHT = 2**31 - 1


def validate_policy(policy: LegacyPolicy) -> None:
    """Raise a `ConfigError` that lists everything that is wrong with a policy."""
    errors = _priorities_errors(policy.priorities or ())
    errors += extenders_errors([today(extender) for extender in policy.extenders])
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


def today(extender: LegacyExtender) -> ExtenderConfig:
    """An extender of a policy as one of a KubeSchedulerConfiguration."""
    fields = msgspec.structs.asdict(extender)
    return ExtenderConfig(**{**fields, "http_timeout": Duration(extender.http_timeout)})


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
    argument = priority.argument
    if argument is None:
        return []
    if argument.label_preference is not None:
        kind = "LabelPreference"
    elif argument.service_anti_affinity is not None:
        kind = "ServiceAntiAffinity"
    elif argument.requested_to_capacity_ratio_arguments is not None:
        kind = "RequestedToCapacityRatio"
    else:
        return [f"no priority arguments set for priority {priority.name}"]
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
    given = sum(
        getattr(item.argument, field) is not None for field in item.argument.__struct_fields__
    )
    if given == 1 or (what == "priority" and given == 0):  # the latter was said already
        return []
    return [f"exactly 1 {what} argument is required, numArgs: {given}, {what} {quoted(item.name)}"]
