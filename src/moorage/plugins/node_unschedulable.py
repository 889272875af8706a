"""NodeUnschedulable: cordoned nodes are closed to pods that do not tolerate it."""

from collections.abc import Hashable, Sequence
from typing import Any

from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, Handle, PreFilterPlugin, PreFilterResult
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.taints import UNSCHEDULABLE_TAINT, tolerated


class NodeUnschedulable(PreFilterPlugin[None], FilterPlugin[None]):
    """Refuse nodes with `spec.unschedulable`."""

    name = "NodeUnschedulable"
    reads = (Aspect.TAINTS,)
    cordoned = Reason("node(s) were unschedulable", Code.UNRESOLVABLE)

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._comparisons = handle.gates.enabled("TaintTolerationComparisonOperators")

    def pod_key(self, pod: Pod) -> Hashable:
        """Does the pod tolerate a cordon?"""
        return self._tolerates(pod)

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None]:
        """Nothing to find out; upstream has the point too."""
        return PreFilterResult(None)

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Cordoned nodes are refused, unless tolerated."""
        verdicts = Verdicts(len(nodes), (self.cordoned,))
        if not self._tolerates(pod):
            cordoned = nodes.unschedulable
            if cordoned.any():
                verdicts.reject(cordoned, self.cordoned)
        return verdicts

    def _tolerates(self, pod: Pod) -> bool:
        if not pod.spec.tolerations:
            return False
        return tolerated(UNSCHEDULABLE_TAINT, pod.spec.tolerations, comparisons=self._comparisons)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A node that opens, or the pod learning to tolerate."""
        untainted = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return [
            on(EventResource.NODE, untainted, _after_node_change),
            on(EventResource.TARGET_POD, ActionType.UPDATE_POD_TOLERATION, self._after_toleration),
        ]

    def _after_toleration(self, pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        return isinstance(new, Pod) and self._tolerates(new)


def _after_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(new, Node) or new.spec.unschedulable:
        return False
    return old is None or (isinstance(old, Node) and old.spec.unschedulable)
