"""What the API server would refuse, found when an object is loaded instead of when it is used.

Quantities and selectors are kept as written and parsed lazily, so a mistake in one would surface
deep inside a scheduling cycle. `check_object` looks at all of them at once and names the field.
Objects from an API server have passed stricter checks already: the live path does not call this.
Must not repair anything.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, get_args

import msgspec

from moorage.errors import DecodeError, SelectorError
from moorage.model.affinity import PodAffinityTerm, WeightedPodAffinityTerm
from moorage.model.decode import describe, sentence
from moorage.model.devices import (
    ALL,
    EXACT_COUNT,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceSliceSpec,
)
from moorage.model.labels import LabelSelector, check_key, check_value, make_requirement
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.names import (
    name_complaint,
    namespace_complaint,
    segment_complaint,
    time_complaint,
)
from moorage.model.node_selector import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    compile_term,
)
from moorage.model.pod import (
    Container,
    ContainerPort,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from moorage.model.pod_group import PodGroupSchedulingPolicy
from moorage.model.quantity import parse_milli
from moorage.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_extended,
    is_hugepages,
    is_pod_level,
)
from moorage.model.storage import IMMEDIATE, WAIT_FOR_FIRST_CONSUMER, StorageClass
from moorage.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from moorage.model.workloads import PriorityClass

_QUANTITY_TYPES = {str, int, float}
_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_PREEMPTION = ("PreemptLowerPriority", "Never")
_MAX_PRIORITY = 1_000_000_000
_INT64 = range(-(2**63), 2**63)


class _InvalidFieldError(Exception):
    def __init__(self, path: str, text: str) -> None:
        super().__init__(sentence(path.removeprefix("."), text))


def check_object(obj: ApiObject, where: str) -> None:
    """Raise `DecodeError` for the first field of `obj` that cannot mean anything."""
    metadata = obj.metadata
    try:
        if not metadata.name and not metadata.generate_name:
            raise _InvalidFieldError("metadata.name", "a name is required")
        _names(obj)
        _walk(obj, "", quantity=False)
    except _InvalidFieldError as problem:
        name = metadata.name or metadata.generate_name
        subject = describe(obj.kind or type(obj).__name__, metadata.namespace, name)
        raise DecodeError(sentence(where, subject, str(problem))) from None


def _names(obj: ApiObject) -> None:
    metadata = obj.metadata
    # What a prefix becomes ends in a letter or a digit.
    made = f"{metadata.generate_name}0" if metadata.generate_name else ""
    for field, name in (("name", metadata.name), ("generateName", made)):
        if name:
            known = type(obj) is not ApiObject
            kind = type(obj).__name__
            text = name_complaint(kind, name) if known else segment_complaint(name)
            _refuse(text, f"metadata.{field}")
    if metadata.namespace:
        _refuse(namespace_complaint(metadata.namespace), "metadata.namespace")


def _refuse(complaint: str, path: str) -> None:
    if complaint:
        raise _InvalidFieldError(path, complaint)


class _Field(NamedTuple):
    attribute: str
    name: str
    quantity: bool


@lru_cache(maxsize=256)
def _fields(struct: type[msgspec.Struct]) -> tuple[_Field, ...]:
    return tuple(
        _Field(field.name, field.encode_name, _holds_quantity(field.type))
        for field in msgspec.structs.fields(struct)
    )


def _holds_quantity(annotation: Any) -> bool:
    """Quantities are the one union of string, integer and float, alone or inside a container."""
    args = set(get_args(annotation))
    return args >= _QUANTITY_TYPES or any(_holds_quantity(arg) for arg in args)


def _walk(value: Any, path: str, *, quantity: bool) -> None:
    if isinstance(value, msgspec.Struct):
        check = _CHECKS.get(type(value))
        if check is not None:
            check(value, path)
        for field in _fields(type(value)):
            item = getattr(value, field.attribute)
            if item or (field.quantity and item == ""):
                _walk(item, f"{path}.{field.name}", quantity=field.quantity)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", quantity=quantity)
    elif isinstance(value, dict):
        for name, item in value.items():
            _walk(item, f"{path}[{name}]", quantity=quantity)
    elif quantity:
        if _milli(value, path) < 0:
            raise _InvalidFieldError(path, f"{value!r} must not be negative")
    elif isinstance(value, int) and value not in _INT64:
        raise _InvalidFieldError(path, f"{value} does not fit into 64 bits")


def _milli(value: Any, path: str) -> int:
    try:
        return parse_milli(value)
    except ValueError as error:
        raise _InvalidFieldError(path, str(error)) from None


def _one_of(value: str | None, allowed: Collection[str], path: str) -> None:
    if value is not None and value not in allowed:
        choices = ", ".join(choice for choice in allowed if choice)
        raise _InvalidFieldError(path, f'"{value}" is not one of {choices}')


def _within(value: int | None, low: int, high: int, path: str) -> None:
    if value is not None and not low <= value <= high:
        raise _InvalidFieldError(path, f"{value} is not between {low} and {high}")


def _required(value: object, path: str, what: str) -> None:
    if not value:
        raise _InvalidFieldError(path, f"{what} is required")


def _label_key(key: str, path: str) -> None:
    _required(key, path, "a label key")
    try:
        check_key(key)
    except SelectorError:
        raise _InvalidFieldError(path, f'"{key}" is not a valid label key') from None


def _label_map(labels: Mapping[str, str], path: str) -> None:
    for key, value in labels.items():
        _label_key(key, f"{path}[{key}]")
        try:
            check_value(value)
        except SelectorError:
            raise _InvalidFieldError(
                f"{path}[{key}]", f'"{value}" is not a valid label value'
            ) from None


def _requirement(
    key: str, operator: str, values: Iterable[str], path: str, *, numeric: bool
) -> None:
    try:
        make_requirement(key, operator, values, numeric=numeric)
    except SelectorError as error:
        # The selector's own message begins with the field of the requirement it is about.
        field, _, text = str(error).partition(": ")
        raise _InvalidFieldError(f"{path}.{field}", text) from None


def _metadata(metadata: ObjectMeta, path: str) -> None:
    _label_map(metadata.labels, f"{path}.labels")
    _time(metadata.creation_timestamp, f"{path}.creationTimestamp")
    _time(metadata.deletion_timestamp, f"{path}.deletionTimestamp")


def _pod_status(status: PodStatus, path: str) -> None:
    _time(status.start_time, f"{path}.startTime")


def _time(text: str | None, path: str) -> None:
    if text is not None:
        _refuse(time_complaint(text), path)


def _label_selector(selector: LabelSelector, path: str) -> None:
    _label_map(selector.match_labels, f"{path}.matchLabels")
    for index, expr in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        _requirement(expr.key, expr.operator, expr.values, at, numeric=False)


def _node_selector(selector: NodeSelector, path: str) -> None:
    _required(selector.node_selector_terms, f"{path}.nodeSelectorTerms", "at least one term")


def _node_selector_term(term: NodeSelectorTerm, path: str) -> None:
    for index, expr in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        _requirement(expr.key, expr.operator, expr.values, at, numeric=True)
    for index, expr in enumerate(term.match_fields):
        at = f"{path}.matchFields[{index}]"
        _one_of(expr.key, (NAME_FIELD,), f"{at}.key")
        field, _, text = compile_term(NodeSelectorTerm(match_fields=(expr,))).error.partition(": ")
        if field:
            raise _InvalidFieldError(f"{at}.{field}", text)


def _weight(term: PreferredSchedulingTerm | WeightedPodAffinityTerm, path: str) -> None:
    _within(term.weight, 1, 100, f"{path}.weight")


def _pod_affinity_term(term: PodAffinityTerm, path: str) -> None:
    _label_key(term.topology_key, f"{path}.topologyKey")


def _spread_constraint(constraint: TopologySpreadConstraint, path: str) -> None:
    _within(constraint.max_skew, 1, 2**31 - 1, f"{path}.maxSkew")
    _label_key(constraint.topology_key, f"{path}.topologyKey")
    unsatisfiable = ("DoNotSchedule", "ScheduleAnyway")
    _one_of(constraint.when_unsatisfiable, unsatisfiable, f"{path}.whenUnsatisfiable")
    _within(constraint.min_domains, 1, 2**31 - 1, f"{path}.minDomains")
    for name, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        _one_of(policy, ("Honor", "Ignore"), f"{path}.{name}")


def _toleration(toleration: Toleration, path: str) -> None:
    _one_of(toleration.operator, ("Exists", "Equal", "Lt", "Gt", ""), f"{path}.operator")
    _one_of(toleration.effect, (*_EFFECTS, ""), f"{path}.effect")
    if not toleration.key and toleration.operator != "Exists":
        raise _InvalidFieldError(
            f"{path}.operator", "a toleration without a key needs the operator Exists"
        )


def _taint(taint: Taint, path: str) -> None:
    _label_key(taint.key, f"{path}.key")
    _one_of(taint.effect, _EFFECTS, f"{path}.effect")


def _port(port: ContainerPort, path: str) -> None:
    _within(port.container_port, 0, 65535, f"{path}.containerPort")
    _within(port.host_port, 0, 65535, f"{path}.hostPort")
    _one_of(port.protocol, ("TCP", "UDP", "SCTP", ""), f"{path}.protocol")


def _container(container: Container, path: str) -> None:
    def known(name: str) -> bool:
        return "/" in name or name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_hugepages(name)

    _resources(container.resources, f"{path}.resources", known)


def _resources(resources: ResourceRequirements, path: str, known: Callable[[str], bool]) -> None:
    for part, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name, amount in amounts.items():
            at = f"{path}.{part}[{name}]"
            if not known(name):
                raise _InvalidFieldError(
                    at, f'"{name}" is not a resource that can be asked for here'
                )
            milli = _milli(amount, at)
            if is_extended(name) and milli % 1000:
                raise _InvalidFieldError(
                    at, f"{amount!r} must be a whole number, as of any such resource"
                )
            limit = resources.limits.get(name)
            if limit is not None and milli > parse_milli(limit):
                raise _InvalidFieldError(at, f"{amount!r} is more than the limit of {limit!r}")


def _pod_spec(spec: PodSpec, path: str) -> None:
    _required(spec.containers, f"{path}.containers", "at least one container")
    _label_map(spec.node_selector, f"{path}.nodeSelector")
    _one_of(spec.preemption_policy, _PREEMPTION, f"{path}.preemptionPolicy")
    _within(spec.priority, -(2**31), 2**31 - 1, f"{path}.priority")
    if spec.resources is not None:
        _resources(spec.resources, f"{path}.resources", is_pod_level)


def _priority_class(item: PriorityClass, path: str) -> None:
    _one_of(item.preemption_policy, _PREEMPTION, f"{path}.preemptionPolicy")
    highest = 2**31 - 1 if item.name.startswith("system-") else _MAX_PRIORITY
    _within(item.value, -(2**31), highest, f"{path}.value")


def _storage_class(item: StorageClass, path: str) -> None:
    _required(item.provisioner, f"{path}.provisioner", "a provisioner")
    modes = (IMMEDIATE, WAIT_FOR_FIRST_CONSUMER)
    _one_of(item.volume_binding_mode, modes, f"{path}.volumeBindingMode")


def _device_request(request: DeviceRequest, path: str) -> None:
    _required(request.name, f"{path}.name", "a name")
    if (request.exactly is None) == (not request.first_available):
        raise _InvalidFieldError(path, "either exactly or firstAvailable is required")


def _exact_request(request: ExactDeviceRequest | DeviceSubRequest, path: str) -> None:
    _required(request.device_class_name, f"{path}.deviceClassName", "a device class")
    _one_of(request.allocation_mode, (EXACT_COUNT, ALL, ""), f"{path}.allocationMode")
    _within(request.count, 0, 2**63 - 1, f"{path}.count")


def _device_selector(selector: DeviceSelector, path: str) -> None:
    expression = "" if selector.cel is None else selector.cel.expression
    _required(expression, f"{path}.cel.expression", "an expression")


def _slice_spec(spec: ResourceSliceSpec, path: str) -> None:
    _required(spec.driver, f"{path}.driver", "a driver")
    _required(spec.pool.name, f"{path}.pool.name", "a name")
    ways = (spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection)
    if sum(bool(way) for way in ways) != 1:
        raise _InvalidFieldError(
            path,
            "exactly one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection is required",
        )


def _group_policy(policy: PodGroupSchedulingPolicy, path: str) -> None:
    if (policy.basic is None) == (policy.gang is None):
        raise _InvalidFieldError(path, "either basic or gang is required")
    if policy.gang is not None:
        _within(policy.gang.min_count, 1, 2**31 - 1, f"{path}.gang.minCount")


_CHECKS: dict[type, Callable[[Any, str], None]] = {
    Container: _container,
    ContainerPort: _port,
    DeviceRequest: _device_request,
    DeviceSelector: _device_selector,
    DeviceSubRequest: _exact_request,
    ExactDeviceRequest: _exact_request,
    LabelSelector: _label_selector,
    NodeSelector: _node_selector,
    NodeSelectorTerm: _node_selector_term,
    ObjectMeta: _metadata,
    PodAffinityTerm: _pod_affinity_term,
    PodGroupSchedulingPolicy: _group_policy,
    PodSpec: _pod_spec,
    PodStatus: _pod_status,
    PreferredSchedulingTerm: _weight,
    PriorityClass: _priority_class,
    ResourceSliceSpec: _slice_spec,
    StorageClass: _storage_class,
    Taint: _taint,
    Toleration: _toleration,
    TopologySpreadConstraint: _spread_constraint,
    WeightedPodAffinityTerm: _weight,
}
