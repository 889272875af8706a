"""Rules as expressions, and the same ones as plugins over columns."""

from collections.abc import Mapping

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.plugin import ScorePlugin
from moorage.model.pod import Pod
from moorage.testing import cluster, make_node, make_pod


class FreeMemory(ScorePlugin[None]):
    name = "FreeMemory"

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        total = nodes.allocatable("memory")
        free: Ints = (total - nodes.requested("memory")) * 100 // np.maximum(total, 1)
        return free


class FastDisk(ScorePlugin[None]):
    name = "FastDisk"

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        return nodes.label("disk").number(lambda disk: 1 if disk == "ssd" else 0)


RULES: Mapping[str, type[ScorePlugin[None]]] = {
    "(node.allocatable.memory - node.requested.memory) * 100 / node.allocatable.memory": FreeMemory,
    "node.labels.disk == 'ssd' ? 1 : 0": FastDisk,
}


def ruled_cluster(size: int) -> ClusterState:
    """Nodes with what the rules look at."""
    disks = ("ssd", "hdd")
    nodes = [
        make_node(f"n{i}", labels={"disk": disks[i % 2]}, memory=f"{8 + i % 7}Gi")
        for i in range(size)
    ]
    pods = [make_pod(f"p{i}", memory=f"{i % 5}Gi", node_name=f"n{i}") for i in range(size)]
    return cluster(nodes, pods)
