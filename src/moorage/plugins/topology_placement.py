"""TopologyPlacementGenerator: a group that must stay together gets one placement per domain.

Owns the way from a group's topology constraint to sets of nodes. Must not judge the placements.
"""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.pod_groups import GroupKey, PodGroupState
from moorage.cluster.view import NodeView
from moorage.framework.placements import Placement, PlacementGeneratePlugin
from moorage.framework.status import Code, Status
from moorage.model.pod_group import PodGroup


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """One placement for each value of the constraint's label among the nodes."""

    name = "TopologyPlacementGenerator"
    looks_up = (PodGroup,)

    def generate_placements(
        self, group: GroupKey, parent: Placement, nodes: NodeView
    ) -> Sequence[Placement] | Status:
        """All of the parent without a constraint; where pods of the group are, only that domain."""
        found = self.handle.listers.of(PodGroup).get(group.name, group.namespace)
        if found is None:
            return _error(f'podgroup.scheduling.k8s.io "{group.name}" not found')
        if not found.topology_keys:
            return [parent]
        key = found.topology_keys[0]  # the API allows no more than one
        state = self.handle.groups.get(group)
        if state is None:
            return _error(f"pod group state not found for pod group {group}")
        required = _domain(key, state, nodes)
        if isinstance(required, Status):
            return required
        members: dict[str, list[int]] = {}
        for row in parent.rows:
            value = nodes.node(int(row)).labels.get(key)
            if value is not None and required in (None, value):
                members.setdefault(value, []).append(int(row))
        return [Placement(value, np.array(rows, np.intp)) for value, rows in members.items()]


def _domain(key: str, state: PodGroupState, nodes: NodeView) -> str | Status | None:
    """The domain that pods of the group are in already; None if none of them is anywhere."""
    domain: str | None = None
    for pod, node_name in state.scheduled:
        row = nodes.row_of(node_name)
        if row is None:
            missing = f'nodeinfo not found for node name "{node_name}"'
            return _unclear(f"getting node for pod {pod.key}: {missing}")
        value = nodes.node(row).labels.get(key)
        if value is None:
            return _unclear(f"no topology domain found for pod {pod.key}")
        # An empty value does not count as a domain seen before, as upstream has it.
        if domain and domain != value:
            return _unclear(f"more than 1 domain found for pod group: {domain}, {value}")
        domain = value
    return domain


def _unclear(text: str) -> Status:
    return _error(f"cannot determine domain for already scheduled pods: {text}")


def _error(text: str) -> Status:
    return Status(Code.ERROR, (text,))
