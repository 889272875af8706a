"""Two column plugins written again node by node, as a newcomer would write them."""

from collections.abc import Hashable

from moorage.cluster.columns import Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow
from moorage.framework.plugin import NodeFilterPlugin, NodeScorePlugin
from moorage.framework.scores import normalize_to_max
from moorage.framework.status import Code, Reason
from moorage.model.pod import Pod
from reference.node_plugins import score_taints, untolerated


class TaintsByNode(NodeFilterPlugin, NodeScorePlugin):
    """TaintToleration."""

    name = "TaintsByNode"
    reads = (Aspect.TAINTS,)
    untolerated = Reason("node(s) had untolerated taint(s)", Code.UNRESOLVABLE)

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        hostile = untolerated(node.node.spec.taints, pod.spec.tolerations)
        return self.untolerated if hostile else None

    def score_node(self, pod: Pod, node: NodeRow) -> int:
        return score_taints(pod, node.node)

    def normalize(self, scores: Ints, state: None) -> Ints:
        del state
        return normalize_to_max(scores, reverse=True)


class FitByNode(NodeFilterPlugin, NodeScorePlugin):
    """NodeResourcesFit, naming only the first shortage; it scores the free share."""

    name = "FitByNode"
    reads = (Aspect.ALLOCATABLE, Aspect.REQUESTED)

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.requests

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        if len(node.pods) + 1 > node.allocatable("pods"):
            return Reason("Too many pods")
        wanted = pod.requests.incoming
        basic = ("cpu", "memory", "ephemeral-storage")
        for name in (*basic, *sorted(wanted.keys() - set(basic))):
            amount = wanted.get(name, 0)
            if amount and amount > node.allocatable(name) - node.requested(name):
                hopeless = amount > node.allocatable(name)
                code = Code.UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
                return Reason(f"Insufficient {name}", code)
        return None

    def score_node(self, pod: Pod, node: NodeRow) -> int:
        wanted = pod.requests.incoming_with_defaults
        cpu = (
            sum(other.requests.occupied_with_defaults["cpu"] for other in node.pods) + wanted["cpu"]
        )
        memory = (
            sum(other.requests.occupied_with_defaults["memory"] for other in node.pods)
            + wanted["memory"]
        )
        shares = [
            max(total - used, 0) * 100 // total
            for total, used in (
                (node.allocatable("cpu"), cpu),
                (node.allocatable("memory"), memory),
            )
            if total
        ]
        return sum(shares) // len(shares) if shares else 0
