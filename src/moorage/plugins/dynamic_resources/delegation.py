"""Extended resources that devices stand in for, as the resource plugins see them.

Owns which resources of a pod NodeResourcesFit leaves to DynamicResources, and how many devices
count as a node's allocatable and used amount when scores are given.
"""

from collections.abc import Sequence

import numpy as np

from moorage.cel import CompileError, EvaluationError
from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.framework.plugin import Handle
from moorage.model.devices import DeviceClass
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.books import DeviceBooks
from moorage.plugins.dynamic_resources.records import DeviceId, DeviceRecord, SliceRecord

_MOST_KINDS = 64

Offers = dict[str, tuple[Node, tuple[DeviceId, ...]]]
"""By the node's name, with the node as it was: the devices of a kind within its reach."""


class Delegation:
    """Which resources are backed by devices; quick to say no where there are no device classes."""

    def __init__(self, handle: Handle) -> None:
        self._books = handle.listers.shared(
            DeviceBooks, lambda: DeviceBooks(handle.listers, handle.gates, handle.pacing)
        )
        self._offers: dict[tuple[str, ...], Offers] = {}
        """By selectors."""
        self._as_of = -1

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
        offers, in_use = self._offers_of(device_class), self._books.usage.in_use
        used, total = used.copy(), total.copy()
        for place in np.flatnonzero(total == 0):
            node = nodes.node(int(place))
            kept = offers.get(node.name)
            if kept is None or (kept[0] is not node and kept[0].labels != node.labels):
                kept = offers[node.name] = (node, self._offered(device_class, node))
            devices = kept[1]
            if devices:
                used[place], total[place] = sum(map(in_use, devices)), len(devices)
        return used, total

    def _offers_of(self, device_class: DeviceClass) -> Offers:
        """What is known of a class; it holds until slices change."""
        inventory = self._books.inventory
        inventory.refresh()
        if inventory.generation != self._as_of or len(self._offers) >= _MOST_KINDS:
            self._as_of = inventory.generation
            self._offers.clear()
        return self._offers.setdefault(_expressions(device_class), {})

    def _offered(self, device_class: DeviceClass, node: Node) -> tuple[DeviceId, ...]:
        """The devices of the class within reach of a node, in use or not."""
        expressions = _expressions(device_class)
        try:
            return tuple(
                device.id
                for record in self._books.inventory.slices_for(node.name)
                for device in _within_reach(record, node)
                if all(map(device.selected_by, expressions))
            )
        except (CompileError, EvaluationError):
            return ()  # upstream logs it and scores the node without the resource


def _expressions(device_class: DeviceClass) -> tuple[str, ...]:
    selectors = device_class.spec.selectors
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)


def _within_reach(record: SliceRecord, node: Node) -> Sequence[DeviceRecord]:
    """Upstream counts generously: a slice that names no nodes at all counts everywhere."""
    if record.per_device:
        return [d for d in record.devices if d.nodes is not None and d.nodes.matches(node)]
    if record.nodes.given and not record.nodes.matches(node):
        return ()
    return record.devices
