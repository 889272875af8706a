"""CoScheduling: pods labelled `pod-group` are bound together, `min-available` of them or none.

Pods with a node wait for the rest; after `permitWaitingTimeSeconds` all of them give it up.
To enable it: `--plugin co_scheduling.py`, and in a KubeSchedulerConfiguration
`profiles: [{plugins: {multiPoint: {enabled: [{name: CoScheduling}]}}}]`.
"""

from typing import Any

from moorage.cluster.view import NodeView
from moorage.framework.plugin import Handle, PermitPlugin, PreFilterPlugin, ReservePlugin
from moorage.framework.status import SKIP, Code, Skip, Status
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod

GROUP, SIZE = "pod-group", "min-available"


class CoScheduling(PreFilterPlugin[None], ReservePlugin, PermitPlugin):
    name = "CoScheduling"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.seconds = float((args or {}).get("permitWaitingTimeSeconds", 60))
        self.incomplete: set[tuple[str, str]] = set()

    def pre_filter(self, pod: Pod, nodes: NodeView) -> Skip | Status:
        siblings, group = self.siblings(pod), (pod.namespace, pod.labels.get(GROUP, ""))
        if len(siblings) < int(pod.labels.get(SIZE, 0)):
            self.incomplete.add(group)
            return Status(Code.UNRESOLVABLE, ("pods of the group are missing",))
        if group in self.incomplete:  # this is the pod that the others were refused for
            self.incomplete.discard(group)
            self.handle.activate(siblings)
        return SKIP

    def reserve(self, pod: Pod, node_name: str) -> None:
        pass  # the waiting pods are known anyway

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        siblings, waiting = self.siblings(pod), self.waiting(pod)
        placed = 1 + len(waiting) + sum(bool(other.spec.node_name) for other in siblings)
        if placed < int(pod.labels.get(SIZE, 1)):
            self.handle.activate(siblings)
            return Status(Code.WAIT, ("waiting for the rest of the group",)), self.seconds
        for other in waiting:
            other.allow(self.name)
        return None, 0.0

    def unreserve(self, pod: Pod, node_name: str) -> None:
        for other in self.waiting(pod):
            other.reject(self.name, f"pod {pod.name} of the same group was not placed")

    def siblings(self, pod: Pod) -> list[Pod]:
        group, pods = pod.labels.get(GROUP), self.handle.listers.of(Pod).in_namespace(pod.namespace)
        return [other for other in pods if group and other.labels.get(GROUP) == group]

    def waiting(self, pod: Pod) -> list[WaitingPod]:
        uids = {other.uid for other in self.siblings(pod)}
        return [one for one in self.handle.waiting if one.pod.uid in uids]
