"""Nodes of an op list: made from a template or like upstream's own, and prepared.

Upstream patches labels and limits onto nodes that exist; here nodes come with them, which is the
same cluster sooner.
"""

from collections.abc import Iterator
from random import Random

from moorage.benchmarks.perf.operations import CreateNodes, NodeAllocatable
from moorage.benchmarks.perf.templates import Template, plain
from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # the API's letters for made-up names
_SUFFIX = 5


def make_nodes(
    operation: CreateNodes, template: Template | None, prefix: str, random: Random, features: int
) -> Iterator[Json]:
    """The nodes, each followed by what belongs to it; `features` of them are declared."""
    taken: set[str] = set()
    for index in range(operation.count):
        node = (
            template.make(index, operation.count, operation.template_params)
            if template
            else plain("node")
        )
        metadata = node["metadata"]
        generated = metadata.pop("generateName", "" if template else prefix)
        name = metadata.get("name") or _name(generated, random, taken)
        metadata["name"] = name
        labels = metadata.setdefault("labels", {})
        labels[HOSTNAME_LABEL] = name
        status = with_allocatable(node)
        if operation.label_node_prepare_strategy is not None:
            turn = operation.label_node_prepare_strategy
            labels[turn.label_key] = turn.label_values[index % len(turn.label_values)]
        if operation.unique_node_label_strategy is not None:
            labels[operation.unique_node_label_strategy.label_key] = f"unique-{prefix}{index}"
        if features:
            status["declaredFeatures"] = sorted(f"Feature{n}" for n in range(1, features + 1))
        limits = operation.node_allocatable_strategy
        if limits is not None:
            status["allocatable"].update(limits.node_allocatable)
        yield node
        if limits is not None:
            yield _csi_node(name, limits)


def with_allocatable(node: Json) -> Json:
    """Give a node what the API server would, all of its capacity to allocate; its status."""
    status: Json = node.setdefault("status", {})
    status.setdefault("allocatable", dict(status.get("capacity") or {}))
    return status


def _name(prefix: str, random: Random, taken: set[str]) -> str:
    while True:
        name = prefix + "".join(random.choices(_LETTERS, k=_SUFFIX))
        if name not in taken:
            taken.add(name)
            return name


def _csi_node(name: str, limits: NodeAllocatable) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": name,
            "annotations": {_MIGRATED: ",".join(limits.migrated_plugins)},
        },
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": name, "allocatable": amount}
                for driver, amount in limits.csi_node_allocatable.items()
            ]
        },
    }
