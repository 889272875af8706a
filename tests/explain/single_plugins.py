"""What single plugins say of a pod, each asked on its own about one node after the other."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from moorage.cluster.view import NodeView
from moorage.errors import MoorageError
from moorage.framework.guard import guard
from moorage.framework.plugin import (
    FilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
)
from moorage.framework.profile import Profile
from moorage.framework.status import Skip, Status
from moorage.model.pod import Pod
from moorage.simulator.world import World

Said = dict[tuple[str, str, str], set[str]]
"""(plugin, point, reason) -> the names of the nodes it is said about."""


def said_by_single_plugins(world: World, profile: Profile, pod: Pod) -> Said:
    """Every rejection that asking the plugins of a profile one by one finds."""
    nodes = NodeView(world.state)
    said: Said = {}
    for name, plugin in profile.plugins.items():
        if plugin in profile.pre_enqueue and isinstance(plugin, PreEnqueuePlugin):
            status = plugin.pre_enqueue(pod)
            for reason in () if status is None else status.reasons:
                note(said, (name, "PreEnqueue", reason), nodes.names())
        state = None
        if plugin in profile.pre_filter and isinstance(plugin, PreFilterPlugin):
            answer = prepared(plugin, pod, nodes, said)
            if answer is None:
                continue
            state = answer.state
        if plugin in profile.filter and isinstance(plugin, FilterPlugin):
            for row, node_name in enumerate(nodes.names()):
                verdicts = plugin.filter(pod, nodes.take(np.array([row])), state)
                for refusal in verdicts.reasons_of(0):
                    note(said, (name, "Filter", refusal.text), [node_name])
    return said


def prepared(
    plugin: PreFilterPlugin[Any], pod: Pod, nodes: NodeView, said: Said
) -> PreFilterResult[Any] | None:
    """What PreFilter found; None if Filter need not be asked any more."""
    name = plugin.name
    try:
        with guard(plugin, "PreFilter"):
            answer = plugin.pre_filter(pod, nodes)
    except MoorageError as error:
        note(said, (name, "PreFilter", str(error)), nodes.names())
        return None
    if isinstance(answer, Skip):
        return None
    if isinstance(answer, Status):
        for reason in answer.reasons:
            note(said, (name, "PreFilter", reason), nodes.names())
        return None
    if answer.node_names is not None:
        left_out = set(nodes.names()) - answer.node_names
        note(said, (name, "PreFilter", f"node(s) didn't satisfy plugin(s) [{name}]"), left_out)
    return answer


def note(said: Said, key: tuple[str, str, str], where: Iterable[str]) -> None:
    """Remember what was said of some nodes."""
    names = set(where)
    if names:
        said.setdefault(key, set()).update(names)
