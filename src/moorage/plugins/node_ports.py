"""NodePorts: a host port can be used once per node, protocol and address."""

from collections.abc import Hashable, Sequence

from moorage.cluster.host_ports import conflict
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Reason, Skip, Verdicts
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod


class NodePorts(PreFilterPlugin[None], FilterPlugin[None]):
    """Refuse nodes on which a host port of the pod is taken."""

    name = "NodePorts"
    reads = (Aspect.PORTS,)
    taken = Reason("node(s) didn't have free ports for the requested pod ports")

    def pod_key(self, pod: Pod) -> Hashable:
        """Only the ports matter."""
        return pod.host_ports

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip:
        """Nothing to do without host ports."""
        return PreFilterResult(None) if pod.host_ports else SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Refuse nodes where a port is taken."""
        verdicts = Verdicts(len(nodes), (self.taken,))
        return verdicts.reject(nodes.with_taken_ports(pod.host_ports), self.taken)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """A pod that gives a port back, or a new node."""
        return [
            on(EventResource.ASSIGNED_POD, ActionType.DELETE, _after_pod_deleted),
            on(EventResource.NODE, ActionType.ADD),
        ]


def _after_pod_deleted(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, Pod):
        return False
    if not old.spec.node_name and not old.status.nominated_node_name:
        return False
    for port in pod.host_ports:
        same = (p.ip for p in old.host_ports if (p.protocol, p.port) == (port.protocol, port.port))
        if conflict(port.ip, same):
            return True
    return False
