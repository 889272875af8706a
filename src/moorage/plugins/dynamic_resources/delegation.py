"""Extended resources that devices stand in for, as the resource plugins see them.

Owns which resources of a pod NodeResourcesFit leaves to DynamicResources, and how many devices
count as a node's allocatable and used amount when scores are given.
"""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import Handle
from moorage.model.devices import DeviceClass
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.books import DeviceBooks
from moorage.plugins.dynamic_resources.cel import CompileError, EvaluationError
from moorage.plugins.dynamic_resources.records import DeviceRecord, SliceRecord

Totals = tuple[Ints, Ints]


class Delegation:
    """Which resources are backed by devices; quick to say no where there are no device classes."""

    def __init__(self, handle: Handle) -> None:
        self._books = handle.listers.shared(
            DeviceBooks, lambda: DeviceBooks(handle.listers, handle.gates)
        )

    @property
    def possible(self) -> bool:
        """Are there any device classes at all?"""
        return bool(len(self._books.classes))

    def backs(self, resource: str) -> bool:
        """Do devices of some class stand for the resource?"""
        return self._books.class_for(resource) is not None

    def backed_requests(self, pod: Pod) -> tuple[str, ...]:
        """The resources a pod asks for that are backed by devices."""
        if not self.possible:
            return ()
        return tuple(name for name in pod.requests.incoming if self.backs(name))

    def with_devices(
        self, resource: str, nodes: NodeView, used: Ints, total: Ints
    ) -> tuple[Ints, Ints]:
        """Used and allocatable amounts, counted in devices on nodes that offer nothing else."""
        if not self.possible:
            return used, total
        device_class = self._books.class_for(resource)
        if device_class is None:
            return used, total
        self._books.refresh()
        self._books.inventory.refresh()
        used, total = used.copy(), total.copy()
        for place in np.flatnonzero(total == 0):
            there, taken = self._count(device_class, nodes.node(int(place)))
            if there:
                used[place], total[place] = taken, there
        return used, total

    def _count(self, device_class: DeviceClass, node: Node) -> tuple[int, int]:
        """Devices of the class within reach of a node, and how many of them are in use."""
        expressions = [
            selector.cel.expression
            for selector in device_class.spec.selectors
            if selector.cel is not None
        ]
        there = taken = 0
        try:
            for record in self._books.inventory.slices():
                for device in _within_reach(record, node):
                    if all(device.selected_by(expression) for expression in expressions):
                        there += 1
                        taken += self._books.usage.in_use(device.id)
        except (CompileError, EvaluationError):
            return 0, 0  # upstream logs it and scores the node without the resource
        return there, taken


def _within_reach(record: SliceRecord, node: Node) -> Sequence[DeviceRecord]:
    """Upstream counts generously: a slice that names no nodes at all counts everywhere."""
    if record.per_device:
        return [d for d in record.devices if d.nodes is not None and d.nodes.matches(node)]
    if record.nodes.given and not record.nodes.matches(node):
        return ()
    return record.devices
