"""The operations that a scheduler_perf test case lists, as values, checked as upstream checks them.

Upstream: kubernetes@v1.36.4 test/integration/scheduler_perf/operations.go, dra.go and update.go.
Carrying them out is `executor`'s part.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from moorage.errors import ConfigError, InputError
from moorage.model.duration import parse_duration
from moorage.model.meta import Json

T = TypeVar("T", bound="Operation")


class Operation(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename="camel",
    tag_field="opcode",
    kw_only=True,
):
    """One step of a workload."""

    @property
    def measures(self) -> bool:
        """Does a measurement end with it?"""
        return False

    def problem(self) -> str:
        """What is wrong with it: the field and a sentence; "" for nothing."""
        return ""


class Counted(Operation, frozen=True, kw_only=True):
    """A step whose count may come from the workload's parameters."""

    count: int = 0
    count_param: str = ""

    def problem(self) -> str:
        """The count."""
        if self.count_param and not self.count_param.startswith("$"):
            return f"countParam: expected a name after a $, got {self.count_param!r}"
        return "" if self.count >= 0 else f"count: expected a number >= 0, got {self.count}"


class LabelNodes(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Gives the nodes one of these label values in turn."""

    label_key: str
    label_values: list[str]


class LabelNodesUniquely(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Gives every node a label value of its own."""

    label_key: str


class NodeAllocatable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Gives the nodes more to allocate, and CSI drivers with limits."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, Json] = {}
    migrated_plugins: list[str] = []


class CreateNodes(Counted, frozen=True, tag="createNodes"):
    """Nodes."""

    node_template_path: str = ""
    node_allocatable_strategy: NodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: LabelNodesUniquely | None = None


class CreateNamespaces(Counted, frozen=True, tag="createNamespaces"):
    """Namespaces with numbers."""

    prefix: str = ""
    namespace_template_path: str = ""


class CreatePods(Counted, frozen=True, tag="createPods"):
    """Pods: awaited, not awaited, or a few again and again for a while."""

    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""

    @property
    def measures(self) -> bool:
        """If it is told to."""
        return self.collect_metrics

    def problem(self) -> str:
        """What contradicts itself."""
        if self.skip_wait_to_completion and self.collect_metrics:
            return "skipWaitToCompletion: cannot go with collectMetrics"
        if self.skip_wait_to_completion and self.steady_state:
            return "skipWaitToCompletion: cannot go with steadyState"
        return Counted.problem(self)


class CreatePodSets(Counted, frozen=True, kw_only=True, tag="createPodSets"):
    """The same pods in several namespaces."""

    namespace_prefix: str = ""
    create_pods_op: CreatePods

    @property
    def measures(self) -> bool:
        """If its pods are."""
        return self.create_pods_op.collect_metrics

    def problem(self) -> str:
        """Its own, or its pods'."""
        inner = self.create_pods_op.problem()
        return Counted.problem(self) or (f"createPodsOp.{inner}" if inner else "")


class DeletePods(Operation, frozen=True, tag="deletePods"):
    """Pods of a namespace go, so many a second or all at once."""

    namespace: str = ""
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(Operation, frozen=True, tag="churn"):
    """Objects come (and go) beside everything else until the workload ends."""

    mode: str = ""
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""
    template_paths: list[str] = []

    def problem(self) -> str:
        """Its mode and its number."""
        if self.mode not in ("create", "recreate"):
            return f"mode: expected create or recreate, got {self.mode!r}"
        if self.number < 0 or (self.mode == "recreate" and not self.number):
            return f"number: expected a number > 0, got {self.number}"
        return "" if self.template_paths else "templatePaths: expected at least one template"


class Barrier(Operation, frozen=True, tag="barrier"):
    """Waits for pods that were not awaited."""

    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"

    def problem(self) -> str:
        """Its stage."""
        if self.stage_requirement not in ("Scheduled", "Attempted"):
            wrong = self.stage_requirement
            return f"stageRequirement: expected Scheduled or Attempted, got {wrong!r}"
        return ""


class Sleep(Operation, frozen=True, tag="sleep"):
    """Lets time pass."""

    duration: str = ""
    duration_param: str = ""


class StartCollectingMetrics(Operation, frozen=True, tag="startCollectingMetrics"):
    """A measurement begins."""

    name: str = ""
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}

    def problem(self) -> str:
        """Its namespaces."""
        return "" if self.namespaces else "namespaces: expected at least one namespace"


class StopCollectingMetrics(Operation, frozen=True, tag="stopCollectingMetrics"):
    """A measurement ends."""

    @property
    def measures(self) -> bool:
        """Always."""
        return True


class CreateAny(Counted, frozen=True, tag="createAny"):
    """Objects of any kind."""

    count: int = 1
    namespace: str = ""
    template_path: str = ""

    def problem(self) -> str:
        """Its template."""
        return Counted.problem(self) if self.template_path else "templatePath: must be set"


class UpdateAny(Counted, frozen=True, tag="updateAny"):
    """Objects of any kind are replaced, so many a second or all at once."""

    count: int = 1
    namespace: str = ""
    template_path: str = ""
    update_per_second: int = 0
    subresources: list[str] = []

    def problem(self) -> str:
        """Its template."""
        return Counted.problem(self) if self.template_path else "templatePath: must be set"


class CreateResourceClaims(Counted, frozen=True, tag="createResourceClaims"):
    """Claims, all alike."""

    namespace: str = ""
    template_path: str = ""

    def problem(self) -> str:
        """Where and what."""
        if not self.namespace:
            return "namespace: must be set"
        return Counted.problem(self) if self.template_path else "templatePath: must be set"


class CreateResourceDriver(Operation, frozen=True, tag="createResourceDriver"):
    """Devices on every node whose name matches."""

    driver_name: str = ""
    max_claims_per_node: int = 0
    max_claims_per_node_param: str = ""
    nodes: str = ""

    def problem(self) -> str:
        """Its name and its nodes."""
        if not self.driver_name:
            return "driverName: must be set"
        return "" if self.nodes else "nodes: must be set"


class AllocResourceClaims(Operation, frozen=True, tag="allocResourceClaims"):
    """Claims get devices without any pod."""

    namespace: str = ""


AnyOperation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | DeletePods
    | Churn
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
    | CreateAny
    | UpdateAny
    | CreateResourceClaims
    | CreateResourceDriver
    | AllocResourceClaims
)

OPCODES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in AnyOperation.__args__)
"""Every operation that can be listed."""


class OperationParameters:
    """A workload's parameters, and which of them were asked for."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where
        self._used: set[str] = set()

    def use(self, name: str) -> Any:
        """The value of a parameter that is there; None for one that is not."""
        self._used.add(name)
        return self._values.get(name)

    def of(self, name: str, kind: type, field: str) -> Any:
        """The value of `$name`, which must be of this kind; `field` asks for it."""
        value = self.use(name.removeprefix("$"))
        at = f"{self._where}: params.{name.removeprefix('$')}"
        if value is None:
            raise InputError(f"{at} is not defined, but {field} asks for it")
        if type(value) is not kind:
            raise InputError(f"{at}: expected {_WORDS[kind]} for {field}, got {value!r}")
        return value

    def unused(self) -> list[str]:
        """The parameters that nobody asked for."""
        return [name for name in self._values if name not in self._used]


_WORDS = {int: "a whole number", str: "a text", bool: "true or false"}


def resolved(operation: T, params: OperationParameters, field: str) -> T:
    """The operation with its parameters put in; `field` is its place in the file."""
    changes: dict[str, Any] = {}
    for name, target, kind in (
        ("count_param", "count", int),
        ("max_claims_per_node_param", "max_claims_per_node", int),
        ("steady_state_param", "steady_state", bool),
        ("duration_param", "duration", str),
    ):
        asked = getattr(operation, name, "")
        if asked:
            shown = name.split("_")[0] + "".join(part.title() for part in name.split("_")[1:])
            changes[target] = params.of(asked, kind, f"{field}.{shown}")
    if isinstance(operation, CreatePodSets):
        inner = resolved(operation.create_pods_op, params, f"{field}.createPodsOp")
        changes["create_pods_op"] = inner
    return msgspec.structs.replace(operation, **changes) if changes else operation


def seconds(duration: str, field: str) -> float:
    """A duration such as `10s` in seconds."""
    try:
        return parse_duration(duration).seconds if duration else 0.0
    except (ConfigError, ValueError):
        raise InputError(f"{field}: expected a duration such as 10s, got {duration!r}") from None
