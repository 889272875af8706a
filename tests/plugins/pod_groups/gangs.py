"""A scheduler with the gates for pod groups on, and an API that binds what it is told to bind."""

from collections.abc import Iterable
from typing import Any

import msgspec

from moorage.config import load_config
from moorage.config.feature_gates import FeatureGates
from moorage.engine.actions import Binding, Eviction, Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.group_attempt import GroupConditionUpdate
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import Plugin
from moorage.framework.status import Status
from moorage.kube.live import build_scheduler
from moorage.model.decode import decode_object
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_pod

GANGS = ("GenericWorkload",)
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
PLACEMENTS = (*GANGS, "TopologyAwareWorkloadScheduling")


def make_group(
    name: str = "gang",
    *,
    min_count: int | None = None,
    topology: str | None = None,
    priority: int | None = None,
    namespace: str = "default",
    **rest: Any,
) -> PodGroup:
    """A gang, or without `min_count` a group whose pods are placed one by one."""
    policy: dict[str, Any] = {"basic": {}}
    if min_count is not None:
        policy = {"gang": {"minCount": min_count}}
    spec: dict[str, Any] = {"schedulingPolicy": policy}
    if topology is not None:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    if priority is not None:
        spec["priority"] = priority
    group = decode_object(
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
            "spec": spec,
            **rest,
        },
        "test object",
    )
    assert isinstance(group, PodGroup)
    return group


def member(name: str, group: str = "gang", *, cpu: str = "1", **fields: Any) -> Pod:
    """A pod of a group."""
    spec = {"schedulingGroup": {"podGroupName": group}, **fields.pop("spec", {})}
    return make_pod(name, cpu=cpu, spec=spec, **fields)


class World:
    """A scheduler, its clock, and everything it said so far."""

    def __init__(
        self,
        gates: Iterable[str] = GANGS,
        config: str = "",
        plugins: Iterable[type[Plugin]] = (),
    ) -> None:
        self.gates = FeatureGates(dict.fromkeys(gates, True))
        self.clock = VirtualClock(1_000_000.0)
        text = f"{HEADER}{config}"
        registry = in_tree_registry()
        for plugin in plugins:
            registry.register(plugin)
        loaded = load_config(text, "test", self.gates)
        self.scheduler: Scheduler = build_scheduler(loaded, registry, self.gates, self.clock)
        self.handlers = self.scheduler.handlers
        self.bound: dict[str, str] = {}
        self.failures: list[Failure] = []
        self.outcomes: list[GroupConditionUpdate] = []
        self.evictions: list[Eviction] = []

    def add(self, *objects: Any) -> None:
        """Objects appear in the API."""
        for one in objects:
            match one:
                case Pod():
                    self.handlers.add_pod(one)
                case PodGroup():
                    self.handlers.add_object(one)
                case _:
                    self.handlers.add_node(one)

    def run(self) -> None:
        """Let the scheduler decide about everything that is ready, and do what it says."""
        self.scheduler.run_timers()
        while self.scheduler.schedule_one():
            pass
        outbox = self.scheduler.outbox
        while outbox:
            match action := outbox.popleft():
                case Binding():
                    self._bind(action)
                case Failure():
                    self.failures.append(action)
                case GroupConditionUpdate():
                    self.outcomes.append(action)
                case Eviction():
                    self.evictions.append(action)

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Let time pass, in steps, with the scheduler at work."""
        for _ in range(int(seconds / step)):
            self.clock.advance(step)
            self.run()

    @property
    def places(self) -> set[str]:
        """The pods that have a place, confirmed or not."""
        return {pod.name for pod, _ in self.scheduler.state.placed_pods()}

    def messages(self, name: str) -> list[str]:
        """What was said about a pod that was not placed."""
        return [failure.message for failure in self.failures if failure.pod.name == name]

    def _bind(self, binding: Binding) -> None:
        if binding.waiting is None:
            self._confirm(binding)
        else:
            binding.waiting.when_settled(lambda outcome: self._settled(binding, outcome))

    def _settled(self, binding: Binding, outcome: Status | None) -> None:
        if outcome is None:
            self._confirm(binding)
        else:
            self.scheduler.binding_failed(binding, outcome)

    def _confirm(self, binding: Binding) -> None:
        self.scheduler.permitted(binding)
        pod = self.scheduler.state.listers.of(Pod).get(binding.pod.name, binding.pod.namespace)
        if pod is not None and not pod.spec.node_name:
            self.bound[pod.name] = binding.node_name
            self.handlers.update_pod(pod, newer(pod.on_node(binding.node_name)))


def newer(pod: Pod) -> Pod:
    """The same pod under the next resource version."""
    version = str(int(pod.metadata.resource_version or 0) + 1)
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata)
