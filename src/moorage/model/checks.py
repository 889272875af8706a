"""What the API server would refuse, found when an object is loaded instead of when it is used.

Quantities and selectors are kept as written and parsed lazily, so a mistake in one would surface
deep inside a scheduling cycle. `check_object` looks at all of them at once and names the field.
What can be said of a field alone is in `checks.yaml`.
Objects from an API server have passed stricter checks already: the live path does not call this.
Must not repair anything.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from moorage.errors import DecodeError, SelectorError
from moorage.model.decode import describe, sentence
from moorage.model.devices import DeviceRequest, DeviceSelector, ResourceSliceSpec
from moorage.model.labels import (
    NUMERIC_OPERATORS,
    LabelSelector,
    check_key,
    check_value,
    make_requirement,
)
from moorage.model.meta import ApiObject
from moorage.model.names import (
    name_complaint,
    namespace_complaint,
    segment_complaint,
    time_complaint,
)
from moorage.model.node_selector import NAME_FIELD, NodeSelectorTerm, compile_term
from moorage.model.pod import Container, PodSpec, ResourceRequirements
from moorage.model.pod_group import DisruptionMode, PodGroupSchedulingPolicy
from moorage.model.quantity import parse_milli
from moorage.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_extended,
    is_hugepages,
    is_pod_level,
)
from moorage.model.taints import Toleration
from moorage.model.workloads import PriorityClass
from moorage.tables import read_table

_QUANTITY_TYPES = {str, int, float}
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


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a field must be; see `checks.yaml`."""

    required: str = ""
    among: tuple[str, ...] | None = None
    between: tuple[int, int] | None = None
    kind: Literal["label key", "label map", "time"] | None = None

    def check(self, value: Any, path: str) -> None:
        if self.required:
            _required(value, path, self.required)
        if self.among is not None and value not in self.among:
            choices = ", ".join(filter(None, self.among))
            raise _InvalidFieldError(path, f'"{value}" is not one of {choices}')
        if self.between is not None:
            _within(value, *self.between, path)
        if self.kind is not None:
            _KINDS[self.kind](value, path)


_NAME_ONLY = _Rule(among=(NAME_FIELD,))
RULES = read_table("moorage.model", "checks.yaml", dict[str, dict[str, _Rule]])


class _Field(NamedTuple):
    attribute: str
    name: str
    quantity: bool


@lru_cache(maxsize=256)
def _fields(
    struct: type[msgspec.Struct],
) -> tuple[tuple[_Field, ...], tuple[tuple[str, _Rule, str], ...]]:
    """Fields to look into; and of those with a rule the name, the rule and the attribute."""
    fields = [
        _Field(field.name, field.encode_name, _holds_quantity(field.type))
        for field in msgspec.structs.fields(struct)
        if not _is_text(field.type)
    ]
    rules = RULES.get(struct.__name__, {})
    ruled = [
        (field.encode_name, rules[field.encode_name], field.name)
        for field in msgspec.structs.fields(struct)
        if field.encode_name in rules
    ]
    return tuple(fields), tuple(ruled)


def _is_text(annotation: Any) -> bool:
    """Does it hold only text, alone or inside containers? Then there is nothing in it to check."""
    args = [arg for arg in get_args(annotation) if arg not in (None, NoneType, Ellipsis)]
    return all(map(_is_text, args)) if args else annotation in (str, bool)


def _holds_quantity(annotation: Any) -> bool:
    """Quantities are the one union of string, integer and float, alone or inside a container."""
    args = set(get_args(annotation))
    return args >= _QUANTITY_TYPES or any(_holds_quantity(arg) for arg in args)


def _walk(value: Any, path: str, *, quantity: bool) -> None:
    if isinstance(value, msgspec.Struct):
        _walk_struct(value, path)
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


def _walk_struct(value: msgspec.Struct, path: str) -> None:
    fields, ruled = _fields(type(value))
    for name, rule, attribute in ruled:
        item = getattr(value, attribute)
        if item is not None or rule.required:
            rule.check(item, f"{path}.{name}")
    check = _CHECKS.get(type(value))
    if check is not None:
        check(value, path)
    for field in fields:
        item = getattr(value, field.attribute)
        if item or (field.quantity and item == ""):
            _walk(item, f"{path}.{field.name}", quantity=field.quantity)


def _milli(value: Any, path: str) -> int:
    try:
        return parse_milli(value)
    except ValueError as error:
        raise _InvalidFieldError(path, str(error)) from None


def _within(value: int, low: int, high: int, path: str) -> None:
    if not low <= value <= high:
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


def _time(text: str, path: str) -> None:
    _refuse(time_complaint(text), path)


_KINDS: Mapping[str, Callable[[Any, str], None]] = {
    "label key": _label_key,
    "label map": _label_map,
    "time": _time,
}


def _label_selector(selector: LabelSelector, path: str) -> None:
    for index, expr in enumerate(selector.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        _requirement(expr.key, expr.operator, expr.values, at, numeric=False)


def _node_selector_term(term: NodeSelectorTerm, path: str) -> None:
    for index, expr in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        bound = expr.operator in NUMERIC_OPERATORS and len(expr.values) == 1
        # The API server stores a bound that is no integer; NodeAffinity refuses such a pod.
        operator = "In" if bound else expr.operator
        _requirement(expr.key, operator, expr.values, at, numeric=True)
    for index, expr in enumerate(term.match_fields):
        at = f"{path}.matchFields[{index}]"
        _NAME_ONLY.check(expr.key, f"{at}.key")
        field, _, text = compile_term(NodeSelectorTerm(match_fields=(expr,))).error.partition(": ")
        if field:
            raise _InvalidFieldError(f"{at}.{field}", text)


def _toleration(toleration: Toleration, path: str) -> None:
    if not toleration.key and toleration.operator != "Exists":
        raise _InvalidFieldError(
            f"{path}.operator", "a toleration without a key needs the operator Exists"
        )


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
    if spec.resources is not None:
        _resources(spec.resources, f"{path}.resources", is_pod_level)


def _priority_class(item: PriorityClass, path: str) -> None:
    highest = 2**31 - 1 if item.name.startswith("system-") else _MAX_PRIORITY
    _within(item.value, -(2**31), highest, f"{path}.value")


def _device_request(request: DeviceRequest, path: str) -> None:
    if (request.exactly is None) == (not request.first_available):
        raise _InvalidFieldError(path, "either exactly or firstAvailable is required")


def _device_selector(selector: DeviceSelector, path: str) -> None:
    expression = "" if selector.cel is None else selector.cel.expression
    _required(expression, f"{path}.cel.expression", "an expression")


def _slice_spec(spec: ResourceSliceSpec, path: str) -> None:
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


def _disruption_mode(mode: DisruptionMode, path: str) -> None:
    if (mode.single is None) == (mode.all is None):
        raise _InvalidFieldError(path, "either single or all is required")


_CHECKS: dict[type, Callable[[Any, str], None]] = {
    Container: _container,
    DeviceRequest: _device_request,
    DeviceSelector: _device_selector,
    DisruptionMode: _disruption_mode,
    LabelSelector: _label_selector,
    NodeSelectorTerm: _node_selector_term,
    PodGroupSchedulingPolicy: _group_policy,
    PodSpec: _pod_spec,
    PriorityClass: _priority_class,
    ResourceSliceSpec: _slice_spec,
    Toleration: _toleration,
}
