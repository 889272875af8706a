"""Putting one plugin to a small cluster, as the framework would."""

from typing import Any

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.outcomes import first_rejection
from moorage.framework.plugin import FilterPlugin, Handle, Plugin, PreFilterPlugin
from moorage.framework.status import SKIP, Skip, Status
from moorage.model.pod import Pod

Answer = dict[str, tuple[str, ...]] | Status | Skip
"""Refused nodes with their reasons, or what PreFilter said instead."""


def make(
    plugin: type[Plugin],
    state: ClusterState,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    args: Any = None,
) -> Any:
    """A plugin over a cluster."""
    return plugin(args, Handle(state.listers, gates))


def ask(plugin: Any, pod: Pod, state: ClusterState) -> Answer:
    """What a plugin says of a pod."""
    assert isinstance(plugin, PreFilterPlugin)
    assert isinstance(plugin, FilterPlugin)
    nodes = NodeView(state)
    before = plugin.pre_filter(pod, nodes)
    if isinstance(before, Status) or before is SKIP:
        return before
    verdicts = plugin.filter(pod, nodes, before.state)
    statuses = {
        name: first_rejection([(plugin.name, verdicts)], place)
        for place, name in enumerate(nodes.names())
    }
    return {name: status.reasons for name, status in statuses.items() if status is not None}
