"""OnePerTeam, a filter asked node by node: pods of two teams (label `team`) never share a node.

To enable it: `--plugin one_per_team.py`, and in a KubeSchedulerConfiguration
`profiles: [{plugins: {filter: {enabled: [{name: OnePerTeam}]}}}]`.
"""

from collections.abc import Hashable

from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeRow
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Reason
from moorage.model.pod import Pod


class OnePerTeam(NodeFilterPlugin):
    """Keeps teams apart; pods without a team may go anywhere."""

    name = "OnePerTeam"
    reads = (Aspect.PODS,)
    occupied = Reason("node(s) already host another team")

    def pod_key(self, pod: Pod) -> Hashable:
        return (pod.labels.get("team"),)

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        team = pod.labels.get("team")
        others = {other.labels.get("team") for other in node.pods} - {None, team}
        return self.occupied if team and others else None
