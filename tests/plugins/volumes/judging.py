"""Putting one plugin to a small cluster, as the framework would."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.outcomes import first_rejection
from moorage.framework.plugin import FilterPlugin, Handle, Plugin, PreFilterPlugin
from moorage.framework.status import SKIP, Code, Skip, Status
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import cluster
from plugins.tables import FITS

Answer = dict[str, tuple[str, ...]] | Status | Skip
"""Refused nodes with their reasons, or what PreFilter said instead."""


class VolumeCase(NamedTuple):
    """What a plugin says of each node (`FITS`, or its reasons) or of all (`SKIP`, or why not)."""

    id: str
    pod: Pod
    objects: Sequence[ApiObject]
    expected: dict[str, str | None] | str | Skip
    pods: Sequence[Pod] = ()
    """Those that are on the nodes already."""


def check(plugin: type[Plugin], nodes: Sequence[Node], case: VolumeCase) -> None:
    """Compare a plugin's answer with a row's."""
    state = cluster(nodes, case.pods, case.objects)
    found = ask(make(plugin, state), case.pod, state)
    if isinstance(found, Status):
        assert found.code is Code.UNRESOLVABLE
        assert ", ".join(found.reasons) == case.expected
    elif found is SKIP:
        assert case.expected is SKIP
    else:
        refused = {name: ", ".join(reasons) for name, reasons in found.items()}
        assert {node.name: FITS for node in nodes} | refused == case.expected


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
