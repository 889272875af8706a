"""What an expression sees of a pod and of a node.

Owns the values behind the fields that `moorage.config.expressions` declares. Amounts are whole
numbers in the scheduler's units (thousandths of a CPU, bytes, pieces); a resource that there is
nothing of is not in the map, and looking it up gives 0.
"""

from collections.abc import Mapping
from typing import Any

from moorage.cel import EvaluationError
from moorage.cel.values import DefaultMap
from moorage.cluster.view import NodeView
from moorage.model.pod import Pod
from moorage.model.resources import in_scheduler_units, to_milli


def pod_variable(pod: Pod, requests: Mapping[str, int]) -> dict[str, Any]:
    """The variable `pod`, or a pod of `node.pods`."""
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "labels": pod.labels,
        "annotations": pod.metadata.annotations,
        "requests": _amounts(requests),
        "priority": pod.priority,
    }


def waiting_pod(pod: Pod) -> dict[str, Any]:
    """The variable `pod`: what it asks for is what the scheduler looks for."""
    return pod_variable(pod, pod.requests.incoming)


class NodeVariables:
    """Makes the variable `node`, with no more fields than an expression reads."""

    def __init__(self, reads: frozenset[tuple[object, ...]] | None) -> None:
        paths = [path for path in reads or () if path[0] == "node"]
        everything = reads is None or any(len(path) == 1 for path in paths)
        self._fields = None if everything else frozenset(path[1] for path in paths)

    def at(self, nodes: NodeView, index: int) -> dict[str, Any]:
        """The node at a place of a view; raises `EvaluationError` if it has an unusable amount."""
        node, wanted = nodes.node(index), self._wants
        variable: dict[str, Any] = {"name": node.name, "labels": node.labels}
        if wanted("annotations"):
            variable["annotations"] = node.metadata.annotations
        if wanted("allocatable"):
            variable["allocatable"] = _amounts(node.allocatable)
        if wanted("capacity"):
            try:
                capacity = in_scheduler_units(to_milli(node.status.capacity))
            except ValueError as error:
                raise EvaluationError(f"capacity: {error}") from None
            variable["capacity"] = _amounts(capacity)
        if wanted("requested"):
            names = {*node.allocatable}.union(
                *(pod.requests.occupied for pod in nodes.pods_on(index))
            )
            variable["requested"] = _amounts(
                {name: int(nodes.requested(name)[index]) for name in names}
            )
        if wanted("pods"):
            variable["pods"] = [
                pod_variable(pod, pod.requests.occupied) for pod in nodes.pods_on(index)
            ]
        return variable

    def _wants(self, field: str) -> bool:
        return self._fields is None or field in self._fields


def _amounts(amounts: Mapping[str, int]) -> DefaultMap:
    return DefaultMap({name: amount for name, amount in amounts.items() if amount}, 0)
