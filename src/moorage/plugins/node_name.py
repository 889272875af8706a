"""NodeName: a pod that names its node goes there or nowhere."""

from collections.abc import Hashable, Sequence

import numpy as np

from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.pod import Pod


class NodeName(PreFilterPlugin[None], FilterPlugin[None]):
    """Refuse every node but the one in `spec.nodeName`."""

    name = "NodeName"
    reads = (Aspect.MEMBERSHIP,)
    other_node = Reason("node(s) didn't match the requested node name", Code.UNRESOLVABLE)

    def pod_key(self, pod: Pod) -> Hashable:
        """Only the name matters."""
        return pod.spec.node_name

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None]:
        """A pod that names its node asks about no other."""
        wanted = pod.spec.node_name
        return PreFilterResult(None, frozenset((wanted,)) if wanted else None)

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Compare names, if the pod has one."""
        verdicts = Verdicts(len(nodes), (self.other_node,))
        wanted = pod.spec.node_name
        if wanted:
            other = np.fromiter((name != wanted for name in nodes.names()), np.bool_, len(nodes))
            verdicts.reject(other, self.other_node)
        return verdicts

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Only a new node can bear the name."""
        return [on(EventResource.NODE, ActionType.ADD)]
