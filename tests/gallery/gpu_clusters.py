"""Clusters with shared GPUs to try policies on, and the same for the naive reference."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.controllers.objects import Json, annotations, meta
from moorage.framework.plugin import Handle
from moorage.gallery.gpu_policy import GpuPolicy
from moorage.gallery.gpus import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import cluster, make_node, make_pod
from reference.shared_gpus import GpuNode, Usual, Wish

MODELS = ("T4", "V100")


def gpu_node(name: str, *, cpu: int = 8000, gpus: int = 2, model: str = "") -> Node:
    """A node with GPUs; CPU in thousandths."""
    labels = {GPU_MODEL: model} if model else {}
    return make_node(name, cpu=f"{cpu}m", labels=labels, allocatable={GPU_COUNT: str(gpus)})


def gpu_pod(
    name: str,
    wish: Wish,
    *,
    node_name: str = "",
    devices: Sequence[int] = (),
) -> Pod:
    """A pod that asks for GPUs, perhaps one that has them."""
    notes = {}
    if wish.gpus:
        notes = {GPU_COUNT: str(wish.gpus), GPU_MILLI: str(wish.milli)}
    if wish.models:
        notes[GPU_MODEL] = "|".join(wish.models)
    if devices:
        notes[GPU_INDEX] = "-".join(map(str, devices))
    metadata = {"annotations": notes}
    return make_pod(name, cpu=f"{wish.cpu}m", node_name=node_name, metadata=metadata)


def policy(kind: type[GpuPolicy], state: ClusterState, args: Any = None) -> GpuPolicy:
    """A policy over a cluster."""
    return kind(args, Handle(state.listers, DEFAULT_FEATURE_GATES))


def usual_args(usual: Usual) -> dict[str, Any]:
    """The usual pods as a policy's arguments."""
    return {
        "typicalPods": [
            {
                "cpuMilli": wish.cpu,
                "gpuCount": wish.gpus,
                "gpuMilli": wish.milli,
                "gpuModels": list(wish.models),
                "weight": weight,
            }
            for wish, weight in usual
        ]
    }


def built(nodes: Iterable[tuple[GpuNode, Sequence[tuple[Wish, Sequence[int]]]]]) -> ClusterState:
    """The cluster that looks like these nodes, each with the pods that made it so."""
    objects, pods = [], []
    for node, placed in nodes:
        used = sum(wish.cpu for wish, _ in placed)
        shape = gpu_node(node.name, cpu=node.cpu + used, gpus=len(node.left), model=node.model)
        objects.append(shape)
        for number, (wish, devices) in enumerate(placed):
            name = f"{node.name}-{number}"
            pods.append(gpu_pod(name, wish, node_name=node.name, devices=devices))
    return cluster(objects, pods)


def everywhere(state: ClusterState) -> NodeView:
    """All nodes."""
    return NodeView(state)


def only(state: ClusterState, name: str) -> NodeView:
    """One node."""
    row = state.nodes.row_of[name]
    return NodeView(state).take(np.array([row]))


millis = st.sampled_from((100, 250, 300, 500, 700))
wishes = st.one_of(
    st.sampled_from((0, 500, 1000, 4000)).map(Wish),
    st.tuples(
        st.sampled_from((0, 1000, 2000, 3500)),
        st.just(1),
        millis,
        st.sampled_from(((), ("T4",), MODELS)),
    ).map(Wish._make),
    st.tuples(st.sampled_from((1000, 4000)), st.integers(1, 4), st.just(1000), st.just(())).map(
        Wish._make
    ),
)
usual_pods = st.lists(st.tuples(wishes, st.integers(1, 9)), min_size=1, max_size=4).map(
    lambda pods: [(wish, weight / sum(w for _, w in pods)) for wish, weight in pods]
)


@st.composite
def used_nodes(draw: st.DrawFn) -> list[tuple[GpuNode, list[tuple[Wish, list[int]]]]]:
    """Nodes with pods on them, and who has which device."""
    nodes = []
    for number in range(draw(st.integers(1, 4))):
        node = GpuNode(
            f"node-{number}",
            draw(st.sampled_from((4000, 8000, 16000))),
            draw(st.integers(0, 4)),
            draw(st.sampled_from(("", *MODELS))),
        )
        placed = []
        for wish in draw(st.lists(wishes, max_size=5)):
            fitting = [i for i, left in enumerate(node.left) if left >= wish.milli]
            devices = draw(st.permutations(fitting))[: wish.gpus] if wish.gpus else []
            if node.fits(wish):
                node.take(wish, devices)
                placed.append((wish, devices))
        nodes.append((node, placed))
    return nodes


def devices_in(pods: Iterable[Json], annotation: str) -> dict[str, str]:
    """The devices that pods, as JSON, have by an annotation; pods without any are left out."""
    noted = {meta(pod)["name"]: annotations(pod).get(annotation, "") for pod in pods}
    return {name: devices for name, devices in noted.items() if devices}
