"""The operations that a scheduler_perf test case lists, as values, checked as upstream checks them.

Upstream: kubernetes@v1.37.1 test/integration/scheduler_perf/operations.go, dra.go and update.go.
Carrying them out is `executor`'s part.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from moorage.errors import ConfigError, InputError
from moorage.model.duration import parse_duration
from moorage.model.meta import Json
from moorage.simulator.documents import parse_documents

Text = Annotated[str, msgspec.Meta(min_length=1)]
"""One that must be given."""


class PerfValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What all values of a performance-config.yaml share."""


class Operation(PerfValue, frozen=True, tag_field="opcode"):
    """One step of a workload."""


class Counted(Operation, frozen=True):
    """A step that is taken so many times."""

    count: Annotated[int, msgspec.Meta(ge=0)] = 0


class LabelNodes(PerfValue, frozen=True):
    """Gives the nodes one of these label values in turn."""

    label_key: str
    label_values: list[str]


class LabelNodesUniquely(PerfValue, frozen=True):
    """Gives every node a label value of its own."""

    label_key: str


class NodeAllocatable(PerfValue, frozen=True):
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
    template_params: Json = {}


class CreateNamespaces(Counted, frozen=True, tag="createNamespaces"):
    """Namespaces with numbers."""

    prefix: str = ""
    namespace_template_path: str = ""


class CreatePods(Counted, frozen=True, tag="createPods"):
    """Pods: awaited, not awaited, or a few again and again for a while."""

    steady_state: bool = False
    duration: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    template_params: Json = {}
    signature_batch_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many pods in a row have the same label `signature`."""

    def __post_init__(self) -> None:
        if self.skip_wait_to_completion and self.collect_metrics:
            raise ValueError("skipWaitToCompletion: cannot go with collectMetrics")
        if self.skip_wait_to_completion and self.steady_state:
            raise ValueError("skipWaitToCompletion: cannot go with steadyState")


class CreatePodSets(Counted, frozen=True, kw_only=True, tag="createPodSets"):
    """The same pods in several namespaces."""

    namespace_prefix: str = ""
    create_pods_op: CreatePods


class DeletePods(Operation, frozen=True, tag="deletePods"):
    """Pods of a namespace go, so many a second or all at once."""

    namespace: str = ""
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(Operation, frozen=True, kw_only=True, tag="churn"):
    """Objects come (and go) beside everything else until the workload ends."""

    mode: str = ""
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""
    template_paths: Annotated[list[str], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.mode not in ("create", "recreate"):
            raise ValueError(f"mode: expected create or recreate, got {self.mode!r}")
        if self.number < 0 or (self.mode == "recreate" and not self.number):
            raise ValueError(f"number: expected a number > 0, got {self.number}")


class Barrier(Operation, frozen=True, tag="barrier"):
    """Waits for pods that were not awaited."""

    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"

    def __post_init__(self) -> None:
        wrong = self.stage_requirement
        if wrong not in ("Scheduled", "Attempted"):
            raise ValueError(f"stageRequirement: expected Scheduled or Attempted, got {wrong!r}")


class Sleep(Operation, frozen=True, tag="sleep"):
    """Lets time pass."""

    duration: str = ""


class StartCollectingMetrics(Operation, frozen=True, kw_only=True, tag="startCollectingMetrics"):
    """A measurement begins."""

    name: str = ""
    namespaces: Annotated[list[str], msgspec.Meta(min_length=1)]
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(Operation, frozen=True, tag="stopCollectingMetrics"):
    """A measurement ends."""


class FromTemplate(Counted, frozen=True, kw_only=True):
    """Objects made from a template."""

    namespace: str = ""
    template_path: Text
    template_params: Json = {}


class CreateAny(FromTemplate, frozen=True, kw_only=True, tag="createAny"):
    """Objects of any kind."""

    count: Annotated[int, msgspec.Meta(ge=0)] = 1


class UpdateAny(CreateAny, frozen=True, tag="updateAny"):
    """Objects of any kind are replaced, so many a second or all at once."""

    update_per_second: int = 0
    subresources: list[str] = []


class CreateResourceClaims(FromTemplate, frozen=True, kw_only=True, tag="createResourceClaims"):
    """Claims, all alike."""

    namespace: Text


class CreatePodGroups(FromTemplate, frozen=True, kw_only=True, tag="createPodGroups"):
    """Pod groups."""

    namespace: Text


class AllocResourceClaims(Operation, frozen=True, tag="allocResourceClaims"):
    """Claims get devices without any pod."""

    namespace: str = ""


_AnyOperation = (
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
    | CreatePodGroups
    | AllocResourceClaims
)

OPCODES: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in _AnyOperation.__args__)
"""Every operation that can be listed."""


class OperationList:
    """The op list of a test case, read for one workload; knows which parameters are used."""

    def __init__(self, template: Sequence[Json], params: Mapping[str, Any], where: str) -> None:
        self._template = template
        self._params = params
        self._where = where
        self.used: set[str] = set()

    def read(self) -> Iterator[Operation]:
        """The operations, pod sets taken apart; an `InputError` names the field that is wrong."""
        for number, written in enumerate(self._template):
            place = f"{self._where}: workloadTemplate[{number}]"
            code = written.get("opcode")
            if code not in OPCODES:
                expected = f"expected one of {', '.join(OPCODES)}, got {code!r}"
                raise InputError(f"{place}.opcode: {expected}")
            complete = self._with_parameters(written, place)
            operation: Operation = converted(complete, _AnyOperation, place)
            if not isinstance(operation, CreatePodSets):
                yield operation
                continue
            for index in range(operation.count):
                namespace = f"{operation.namespace_prefix}-{index}"
                yield msgspec.structs.replace(operation.create_pods_op, namespace=namespace)

    def _with_parameters(self, written: Json, place: str) -> Json:
        """What is written, with `count: 5` in the place of `countParam: $pods`."""
        complete = dict(written)
        factor = complete.pop("countMultiplierParam", None)
        for field, value in written.items():
            if field == "createPodsOp" and isinstance(value, dict):
                complete[field] = self._with_parameters(value, f"{place}.{field}")
            elif field == "templateParams" and isinstance(value, dict):
                complete[field] = {
                    name: self._template_parameter(asked, f"{place}.{field}.{name}")
                    for name, asked in value.items()
                }
            elif field in complete and field.endswith("Param"):
                del complete[field]
                complete[field.removesuffix("Param")] = self._parameter(value, f"{place}.{field}")
        if factor is not None:
            times = self._parameter(factor, f"{place}.countMultiplierParam")
            complete["count"] = complete.get("count", 0) * times
        return complete

    def _template_parameter(self, asked: object, place: str) -> Any:
        """A value, or after a $ a parameter's; `$name|5` is 5 without the parameter."""
        if not isinstance(asked, str) or not asked.startswith("$"):
            return asked
        name, has_default, default = asked[1:].partition("|")
        if not has_default or name in self._params:
            return self._parameter(f"${name}", place)
        documents = parse_documents(default, place, is_json=False)
        return documents[0] if documents else None

    def _parameter(self, asked: object, place: str) -> Any:
        name = str(asked).removeprefix("$")
        if name == asked:
            raise InputError(f"{place}: expected a name after a $, got {asked!r}")
        self.used.add(name)
        if name not in self._params:
            field = place.removeprefix(f"{self._where}: ")
            raise InputError(
                f"{self._where}: params.{name} is not defined, but {field} asks for it"
            )
        return self._params[name]


def converted(written: Any, kind: Any, where: str) -> Any:
    """A value of some kind; an `InputError` says what is wrong with which field."""
    try:
        return msgspec.convert(written, kind)
    except msgspec.ValidationError as error:
        what, _, field = str(error).partition(" - at `$")
        raise InputError(f"{where}{field.rstrip('`')}: {what[:1].lower()}{what[1:]}") from None


def seconds(duration: str, field: str) -> float:
    """A duration such as `10s` in seconds."""
    try:
        return parse_duration(duration).seconds if duration else 0.0
    except (ConfigError, ValueError):
        raise InputError(f"{field}: expected a duration such as 10s, got {duration!r}") from None
