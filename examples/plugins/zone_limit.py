"""ZoneLimit, a filter across nodes, with state: at most two pods of an app (label) in a zone.

To enable it: `--plugin zone_limit.py`, and in a KubeSchedulerConfiguration
`profiles: [{plugins: {multiPoint: {enabled: [{name: ZoneLimit}]}}}]`.
"""

from typing import Any

from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.view import NodeView
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Reason, Skip, Verdicts
from moorage.model.labels import selector_from_labels
from moorage.model.node import ZONE_LABEL
from moorage.model.pod import Pod


class ZoneLimit(PreFilterPlugin[Any], FilterPlugin[Any]):
    name = "ZoneLimit"
    row_local = False
    full = Reason("node(s) in a zone that has two pods of the app")

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[Any] | Skip:
        if "app" not in pod.labels:
            return SKIP
        app = PodSelector(selector_from_labels({"app": pod.labels["app"]}), (pod.namespace,))
        return PreFilterResult(nodes.pods_per_domain(PodQuery((app,)), ZONE_LABEL).sums)

    def filter(self, pod: Pod, nodes: NodeView, state: Any) -> Verdicts:
        zones = nodes.label(ZONE_LABEL)
        return Verdicts(len(nodes)).reject(zones.present & (state[zones.codes] >= 2), self.full)

    def with_pod(self, state: Any, pod: Pod, other: Pod, nodes: Any, row: int, sign: int) -> Any:
        counts = state.copy()
        if (other.namespace, other.labels.get("app")) == (pod.namespace, pod.labels["app"]):
            counts[nodes.label(ZONE_LABEL).codes[row]] += sign
        return counts
