"""Volumes made on demand: where a class allows them, and where its driver has room for them."""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.errors import SelectorError
from moorage.model.labels import Requirement, make_requirement
from moorage.model.quantity import parse_milli, whole
from moorage.model.storage import (
    NO_PROVISIONER,
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from moorage.plugins.volume_binding.claims import DelayedClaim

UNTRACKED = -1


class Provisioning(msgspec.Struct, frozen=True):
    """Where a volume for a claim could be made, per place of the view."""

    claim: PersistentVolumeClaim
    allowed: Bools
    """The class provisions volumes for these nodes."""
    enough: Bools
    """The driver has room, or does not tell."""
    numbers: Ints
    """Which of `capacities` has the room; UNTRACKED where the driver does not tell."""
    capacities: Sequence[CSIStorageCapacity] = ()

    def capacity(self, place: int) -> CSIStorageCapacity | None:
        """What the driver says of a place."""
        number = int(self.numbers[place])
        return None if number == UNTRACKED else self.capacities[number]

    def rooms(self) -> Ints:
        """How much room the driver has, where it tells."""
        rooms = [
            whole(parse_milli(one.capacity)) if one.capacity is not None else 0
            for one in self.capacities
        ]
        return np.array([*rooms, 0], np.int64)[self.numbers]  # UNTRACKED means the last


def provision(delayed: DelayedClaim, nodes: NodeView, listers: Listers) -> Provisioning:
    """Look at every node of the view."""
    claim, storage_class = delayed.claim, delayed.storage_class
    untracked = np.full(len(nodes), UNTRACKED, np.int64)
    everywhere = np.ones(len(nodes), np.bool_)
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return Provisioning(claim, ~everywhere, everywhere, untracked)
    allowed = _allowed(storage_class.allowed_topologies, nodes)
    driver = listers.of(CSIDriver).get(storage_class.provisioner)
    if claim.milli_request is None or driver is None or not driver.spec.storage_capacity:
        return Provisioning(claim, allowed, everywhere, untracked)
    capacities = _sufficient(claim.milli_request, storage_class, listers)
    numbers = untracked
    for number, capacity in reversed(list(enumerate(capacities))):
        numbers[_matching(capacity.nodes.requirements, nodes)] = number  # the first one stays
    return Provisioning(claim, allowed, numbers != UNTRACKED, numbers, capacities)


def _sufficient(
    milli_request: int, storage_class: StorageClass, listers: Listers
) -> list[CSIStorageCapacity]:
    size = whole(milli_request)
    return [
        capacity
        for capacity in listers.of(CSIStorageCapacity)
        if capacity.storage_class_name == storage_class.name
        and capacity.milli_limit is not None
        and whole(capacity.milli_limit) >= size
        and not capacity.nodes.nothing
    ]


def _allowed(terms: Sequence[TopologySelectorTerm], nodes: NodeView) -> Bools:
    """Which nodes pass any of the terms? No terms allow all, an empty term allows none."""
    if not terms:
        return np.ones(len(nodes), np.bool_)
    allowed = np.zeros(len(nodes), np.bool_)
    for term in terms:
        try:
            requirements = [
                make_requirement(expr.key, "In", expr.values)
                for expr in term.match_label_expressions
            ]
        except SelectorError:
            continue  # a term that cannot be read allows nothing, and does not spoil the others
        if requirements:
            allowed |= _matching(requirements, nodes)
    return allowed


def _matching(requirements: Sequence[Requirement], nodes: NodeView) -> Bools:
    matching = np.ones(len(nodes), np.bool_)
    for requirement in requirements:
        matching &= nodes.label(requirement.key).matching(requirement)
    return matching
