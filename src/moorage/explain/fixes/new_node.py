"""One more node: which of the nodes there are it should be like."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.listers import Listers
from moorage.explain.fixes.changes import ADD_NODE, Change
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.survey import Survey
from moorage.model.meta import ObjectMeta
from moorage.model.node import HOSTNAME_LABEL, Node, NodeCondition, NodeSpec, NodeStatus
from moorage.model.pod import Pod
from moorage.model.resources import PODS
from moorage.model.storage import CSINode, CSINodeSpec

_MOST_SHAPES = 8
_MOST_ROWS = 500
_NODE_TROUBLE = "node.kubernetes.io/"
_PASSING = frozenset(
    {
        "NodeResourcesFit",
        "NodePorts",
        "InterPodAffinity",
        "PodTopologySpread",
        "NodeUnschedulable",
        "NodeVolumeLimits",
        "VolumeRestrictions",
    }
)
"""Plugins whose refusal may have to do with what is on a node, and not with the node."""


def add_node(sandbox: Sandbox, pod: Pod, survey: Survey) -> Iterator[Change]:
    """New nodes, each like another one, empty; the most promising first."""
    names, listers = sandbox.state.nodes.row_of, sandbox.state.listers
    for node in _models(pod, survey, listers):
        copy = _like(node, names)
        yield Change(
            ADD_NODE,
            f"add a node like {node.name}",
            3.0,
            nodes=(copy,),
            objects=_drivers_like(node, copy, listers),
        )


def _models(pod: Pod, survey: Survey, listers: Listers) -> Sequence[Node]:
    """One node of every kind that would be large enough, those refused for the least first."""
    nodes = survey.nodes
    large = np.ones(len(nodes), np.bool_)
    for name, amount in pod.requests.incoming.items():
        if amount > 0 and name != PODS:
            offered = nodes.allocatable(name)
            large &= (offered >= amount) | (offered == 0)
    lasting = np.zeros(len(nodes), np.int64)
    for plugin, rows in survey.by_plugin.items():
        if plugin not in _PASSING:
            lasting += rows
    candidates: Rows = np.flatnonzero(large)
    found: dict[object, Node] = {}
    order = candidates[np.argsort(lasting[candidates], kind="stable")]
    for row in order[:: max(1, len(order) // _MOST_ROWS)]:
        node = nodes.node(int(row))
        found.setdefault(_shape(node, listers), node)
        if len(found) >= _MOST_SHAPES:
            break
    return list(found.values())


def _shape(node: Node, listers: Listers) -> object:
    """What nodes of one kind have in common."""
    storage = listers.of(CSINode).get(node.name)
    labels = {k: v for k, v in node.labels.items() if k != HOSTNAME_LABEL}
    return (
        tuple(sorted(node.allocatable.items())),
        tuple(sorted(labels.items())),
        node.spec.taints,
        frozenset(() if storage is None else (driver.name for driver in storage.spec.drivers)),
    )


def _drivers_like(node: Node, copy: Node, listers: Listers) -> tuple[CSINode, ...]:
    """The same CSI drivers on the new node: what they attach is limited there, too."""
    known = listers.of(CSINode).get(node.name)
    if known is None:
        return ()
    drivers = tuple(msgspec.structs.replace(one, node_id=copy.name) for one in known.spec.drivers)
    return (
        CSINode(
            metadata=ObjectMeta(name=copy.name, annotations=known.metadata.annotations),
            api_version="storage.k8s.io/v1",
            kind="CSINode",
            spec=CSINodeSpec(drivers=drivers),
        ),
    )


def _like(node: Node, taken: dict[str, int]) -> Node:
    """A node of the same kind under a new name, with nothing on it and nothing wrong with it."""
    number = 1
    while f"{node.name}-like-{number}" in taken:
        number += 1
    name = f"{node.name}-like-{number}"
    labels = dict(node.labels)
    if HOSTNAME_LABEL in labels:
        labels[HOSTNAME_LABEL] = name
    taints = tuple(t for t in node.spec.taints if not t.key.startswith(_NODE_TROUBLE))
    return Node(
        metadata=ObjectMeta(name=name, labels=labels),
        api_version="v1",
        kind="Node",
        spec=NodeSpec(taints=taints),
        status=NodeStatus(
            capacity=node.status.capacity,
            allocatable=node.status.allocatable,
            conditions=(NodeCondition(type="Ready", status="True"),),
            declared_features=node.status.declared_features,
        ),
    )
