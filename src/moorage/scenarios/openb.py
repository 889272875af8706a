"""Runs of the openb GPU trace: pods come one by one, those that fit nowhere are dropped.

The scheduler is the live one, with a profile of one policy of the gallery. What comes out is the
allocation curve: how much of all GPUs is allocated by when so much was asked for.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from moorage.config import load_config
from moorage.config.types import API_VERSION, KIND
from moorage.errors import InputError
from moorage.gallery.catalogue import GALLERY
from moorage.gallery.gpus import GPU_MODEL
from moorage.gallery.typical_pods import as_args, typical_pods
from moorage.gallery.typical_pods_policy import TypicalPodsPolicy
from moorage.model.meta import Json, ObjectMeta
from moorage.model.node import Node, NodeStatus
from moorage.model.pod import Container, Pod, PodSpec, ResourceMap, ResourceRequirements
from moorage.scenarios.traces.openb import (
    WHOLE_GPU,
    Order,
    TraceNode,
    TracePod,
    gpu_notes,
    node_amounts,
)
from moorage.simulator.virtual import VirtualCluster
from moorage.simulator.world import full_registry


class NamedPolicy(NamedTuple):
    """A policy of the gallery."""

    plugin: str
    label: str
    """What tables of curves call it; the first six are those of the published ones."""


POLICIES: Mapping[str, NamedPolicy] = {
    "fgd": NamedPolicy("FGD", "06-FGD"),
    "best-fit": NamedPolicy("BestFit", "05-BestFit"),
    "dot-product": NamedPolicy("DotProd", "02-DotProd"),
    "gpu-packing": NamedPolicy("GpuPacking", "04-GpuPacking"),
    "gpu-clustering": NamedPolicy("GpuClustering", "03-GpuClustering"),
    "gpu-headroom": NamedPolicy("GpuHeadroom", "07-GpuHeadroom"),
    "random": NamedPolicy("Random", "01-Random"),
}
"""By what policies are called on the command line."""
MOST_ASKED = 130
"""Percent of all GPUs; so far goes the curve."""
_COLUMNS = ("workload", "sc_policy", "tune", "seed", "total_gpus")
_NAMESPACE = "openb"
_LEARNING = {plugin.name for plugin in GALLERY if issubclass(plugin, TypicalPodsPolicy)}
"""Policies that want to know the usual pods."""


class Allocation(NamedTuple):
    """What was asked for and what is allocated, in thousandths of a GPU, after each arrival."""

    gpus: int
    """How many there are."""
    asked: Sequence[int]
    allocated: Sequence[int]
    placed: int

    def curve(self) -> list[float | None]:
        """Percent allocated by percent asked for, from 0 to 130; the mean where there are several.

        Where there is none, of those next to it; None if there are none either. Numbers are rounded
        as and when those of the published curves were.
        """
        asked = np.round(np.array(self.asked) / self.gpus / 10)
        allocated = np.round(np.array(self.allocated) / self.gpus / 10, 2)
        means: list[float | None] = []
        for percent in range(MOST_ASKED + 1):
            near = allocated[asked == percent]
            if not len(near):
                near = allocated[np.abs(asked - percent) <= 1]
            means.append(float(np.round(near.mean(), 2)) if len(near) else None)
        return means


def run_openb(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    order: Order,
    policy: str,
    seed: int = 0,
) -> Allocation:
    """Let the pods arrive."""
    gpus = sum(node.gpus for node in nodes)
    if not gpus:
        raise InputError("the nodes of the trace have no GPUs")
    templates = [_pod(pod) for pod in pods]
    profile = policy_profile(POLICIES[policy].plugin, templates)
    document = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    config = load_config(msgspec.json.encode(document), policy)
    cluster = VirtualCluster(config, full_registry(), seed=seed)
    # Of equal nodes the first one by name is taken.
    ranked = zip(order.ranks, nodes, strict=True)
    cluster.add(*(_node(node._replace(name=f"{rank:06}")) for rank, node in sorted(ranked)))
    asked, allocated, placed = [0], [0], 0
    for number, arrival in enumerate(order.arrivals):
        milli = pods[arrival].gpus * pods[arrival].gpu_milli
        arriving = _named(templates[arrival], f"{pods[arrival].name}-{number}")
        cluster.add(arriving)
        asked.append(asked[-1] + milli)
        if cluster.node_of(arriving) is None:
            cluster.delete(arriving)
            milli = 0
        else:
            placed += 1
        allocated.append(allocated[-1] + milli)
    return Allocation(gpus, asked[1:], allocated[1:], placed)


def write_curve(path: Path, allocation: Allocation, pods: Path, policy: str, seed: int) -> None:
    """Write the curve as a table with one row, in the layout of the published ones."""
    workload = pods.name.removesuffix(".gz").removesuffix(".csv")
    asked = round(allocation.asked[-1] / allocation.gpus / WHOLE_GPU, 1)
    row = (workload, POLICIES[policy].label, asked, seed, allocation.gpus)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow((*_COLUMNS, *range(MOST_ASKED + 1)))
            table.writerow((*row, *allocation.curve()))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def policy_profile(plugin: str, pods: Iterable[Pod]) -> Json:
    """A profile in which a policy alone chooses among the nodes where a pod fits.

    If it wants to know the usual pods, they are counted among those given.
    """
    fit = {"enabled": [{"name": "NodeResourcesFit"}]}
    points = {
        "multiPoint": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
        "queueSort": {"enabled": [{"name": "PrioritySort"}]},
        "preFilter": fit,
        "filter": fit,
        "bind": {"enabled": [{"name": "DefaultBinder"}]},
    }
    args = [{"name": plugin, "args": as_args(typical_pods(pods))}] if plugin in _LEARNING else []
    return {"plugins": points, "pluginConfig": args, "percentageOfNodesToScore": 100}


def _node(node: TraceNode) -> Node:
    amounts: ResourceMap = dict(node_amounts(node))
    labels = {GPU_MODEL: node.model} if node.model else {}
    return Node(
        metadata=ObjectMeta(name=node.name, uid=node.name, labels=labels),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _pod(pod: TracePod) -> Pod:
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    container = Container(name="main", resources=ResourceRequirements(requests=dict(requests)))
    return Pod(
        metadata=ObjectMeta(namespace=_NAMESPACE, annotations=gpu_notes(pod)),
        spec=PodSpec(containers=(container,)),
    )


def _named(template: Pod, name: str) -> Pod:
    metadata = msgspec.structs.replace(template.metadata, name=name, uid=name)
    return msgspec.structs.replace(template, metadata=metadata)
