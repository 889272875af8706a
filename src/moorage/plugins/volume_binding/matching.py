"""Existing volumes for claims: the smallest that fits, each used once.

All nodes are matched together. Which volumes suit a claim does not depend on the node; which of
them a node reaches does, so volumes are offered by size to all nodes that still need one.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.errors import SelectorError
from moorage.model.labels import Selector, compile_selector
from moorage.model.quantity import whole
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.plugins.errors import MatchingError
from moorage.plugins.volume_binding.topology import VolumeTopology

AVAILABLE = "Available"
NONE = -1


class Match(msgspec.Struct, frozen=True):
    """A claim, and per place of the view the number of its volume (NONE: there is none)."""

    claim: PersistentVolumeClaim
    numbers: Ints


class Matches:
    """Claims matched one after the other; a volume taken by one is not offered to the next."""

    def __init__(
        self, volumes: Mapping[str, Sequence[PersistentVolume]], topology: VolumeTopology, size: int
    ) -> None:
        self._volumes = volumes
        self._topology = topology
        self._size = size
        self._numbered: list[PersistentVolume] = []
        self._numbers: dict[str, int] = {}
        self.done: list[Match] = []

    def add(self, claim: PersistentVolumeClaim) -> Match:
        """Find the next claim's volumes. Claims must come by size, the smallest first."""
        prebound, free = _candidates(claim, self._volumes[claim.storage_class])
        numbers = np.full(self._size, NONE, np.int64)
        still_open = np.ones(self._size, np.bool_)
        for volume in prebound:
            # Whoever wrote the claim into the volume has decided: this one, or none.
            number = self._number(volume)
            decided = still_open & ~self._taken(number)
            places = self._topology.places(volume.required_nodes)
            numbers[places[decided[places]]] = number
            still_open &= ~decided
        left = int(np.count_nonzero(still_open))
        for volume in sorted(free, key=lambda volume: volume.milli_capacity):
            if not left:
                break
            number = self._number(volume)
            places = self._topology.places(volume.required_nodes)
            places = places[still_open[places]]
            for earlier in self.done:
                places = places[earlier.numbers[places] != number]
            numbers[places] = number
            still_open[places] = False
            left -= len(places)
        match = Match(claim, numbers)
        self.done.append(match)
        return match

    def volume(self, match: Match, place: int) -> PersistentVolume | None:
        """The volume that a match found for a place."""
        number = int(match.numbers[place])
        return None if number == NONE else self._numbered[number]

    def by_class(self, match: Match) -> Iterator[tuple[str, Bools, Ints]]:
        """The volumes of a match by their storage class: the places that get one, and its size."""
        volumes = self._numbered
        if not volumes:
            return
        sizes = np.array([whole(volume.milli_capacity) for volume in volumes], np.int64)
        names = [volume.spec.storage_class_name for volume in volumes]
        used = match.numbers != NONE
        for name in dict.fromkeys(names):
            of_class = np.array([one == name for one in names])
            where = used & of_class[match.numbers]
            if where.any():
                yield name, where, sizes[match.numbers]

    def _number(self, volume: PersistentVolume) -> int:
        number = self._numbers.setdefault(volume.name, len(self._numbered))
        if number == len(self._numbered):
            self._numbered.append(volume)
        return number

    def _taken(self, number: int) -> Bools:
        taken = np.zeros(self._size, np.bool_)
        for earlier in self.done:
            taken |= earlier.numbers == number
        return taken


def _candidates(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]
) -> tuple[list[PersistentVolume], list[PersistentVolume]]:
    """The volumes that suit a claim: those that name it, and those free for anybody."""
    selector = _selector(claim)
    prebound, free = [], []
    for volume in volumes:
        if not _suits(volume, claim):
            continue
        if volume.bound_to(claim):
            prebound.append(volume)
        elif volume.spec.claim_ref is None and _available(volume, claim, selector):
            free.append(volume)
    return prebound, free


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return compile_selector(claim.spec.selector)
    except SelectorError as error:
        raise MatchingError(
            f"error creating internal label selector for claim: {claim.key}: {error}"
        ) from error


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What even a volume that names the claim must fulfil."""
    return (
        volume.milli_capacity >= (claim.milli_request or 0)
        and volume.volume_mode == claim.volume_mode
        and (volume.spec.volume_attributes_class_name or "")
        == (claim.spec.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _available(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None
) -> bool:
    return (
        volume.status.phase == AVAILABLE
        and (selector is None or selector.matches(volume.labels))
        and volume.storage_class == claim.storage_class
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )
