"""DeferredPodScheduling: pods on their nodes that wait for room to grow.

Such pods are not queued here, so it has nothing to do: profiles may name it, as in kube-scheduler.
"""

from collections.abc import Sequence

from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import EventRegistration
from moorage.framework.plugin import FilterPlugin, PermitPlugin, PreFilterPlugin
from moorage.framework.status import SKIP, Skip, Verdicts
from moorage.model.pod import Pod


class DeferredPodScheduling(PreFilterPlugin[None], FilterPlugin[None], PermitPlugin):
    """Let every pod pass."""

    name = "DeferredPodScheduling"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> Skip:
        """Filter need not be asked."""
        return SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        """Where PreFilter is disabled it is asked all the same."""
        return Verdicts(len(nodes), ())

    def permit(self, pod: Pod, node_name: str) -> tuple[None, float]:
        """Hold nothing back."""
        return None, 0.0

    def events_to_register(self) -> Sequence[EventRegistration]:
        """It refuses no pod."""
        return ()
