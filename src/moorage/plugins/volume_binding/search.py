"""Volumes for a pod's claims, on all nodes of a view at once.

Owns the order in which bound claims, existing volumes and volumes on demand are looked at, and
which failure is reported for a node. What was found for a node can be read off afterwards.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.errors import TranslationError
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.csi_migration import required_nodes_at_driver, translated
from moorage.model.quantity import whole
from moorage.model.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from moorage.plugins.errors import MatchingError
from moorage.plugins.volume_binding.assume_cache import VolumeCache
from moorage.plugins.volume_binding.claims import DelayedClaim, PodClaims
from moorage.plugins.volume_binding.matching import NONE, Match, Matches
from moorage.plugins.volume_binding.provisioning import UNTRACKED, Provisioning, provision
from moorage.plugins.volume_binding.topology import VolumeTopology

NODE_CONFLICT = Reason("node(s) didn't match PersistentVolume's node affinity", Code.UNRESOLVABLE)
BIND_CONFLICT = Reason(
    "node(s) didn't find available persistent volumes to bind", Code.UNRESOLVABLE
)
NOT_ENOUGH_SPACE = Reason("node(s) did not have enough free storage", Code.UNRESOLVABLE)
VOLUME_MISSING = Reason(
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    Code.UNRESOLVABLE,
)
REASONS = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING)


class StaticBinding(msgspec.Struct, frozen=True):
    """A claim and the existing volume it is to be bound to."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


class Provision(msgspec.Struct, frozen=True):
    """A claim for which a volume is to be made, and what the driver says of its room."""

    claim: PersistentVolumeClaim
    capacity: CSIStorageCapacity | None


class StorageUse(msgspec.Struct, frozen=True):
    """What a claim takes of a storage class, and how much of that there is."""

    storage_class: str
    where: Bools
    """The places of the view that this is about."""
    requested: int
    there: Ints


class VolumeSearch:
    """One pod's claims on the nodes of one view."""

    def __init__(
        self, claims: PodClaims, nodes: NodeView, volumes: VolumeCache, listers: Listers
    ) -> None:
        self.verdicts = Verdicts(len(nodes), REASONS)
        self._nodes = nodes
        self._volumes = volumes
        self._listers = listers
        self._topology = VolumeTopology(nodes, listers)
        self._alive: Bools = np.ones(len(nodes), np.bool_)
        """Nodes on which nothing went wrong: there every failure so far is a plain refusal."""
        self._matches: Matches | None = None
        self._provisioned: list[tuple[Bools, Provisioning]] = []
        """Per claim, where it needs a volume on demand, in the order claims are looked at."""
        self._check_bound(claims.bound)
        if claims.delayed:
            self._place_delayed(claims.delayed)

    def bindings(self, place: int) -> tuple[StaticBinding, ...]:
        """The existing volumes that would be used on a node that was accepted."""
        found = self._matches
        if found is None:
            return ()
        pairs = ((found.volume(match, place), match.claim) for match in found.done)
        return tuple(StaticBinding(volume, claim) for volume, claim in pairs if volume is not None)

    def provisions(self, place: int) -> tuple[Provision, ...]:
        """The volumes that would be made for a node that was accepted."""
        return tuple(
            Provision(found.claim, found.capacity(place))
            for needed, found in self._provisioned
            if needed[place]
        )

    def existing_uses(self) -> Iterator[StorageUse]:
        """What claims take of existing volumes."""
        found = self._matches
        if found is None:
            return
        for match in found.done:
            requested = whole(match.claim.milli_request or 0)
            for name, where, sizes in found.by_class(match):
                yield StorageUse(name, where, requested, sizes)

    def on_demand_uses(self) -> Iterator[StorageUse]:
        """What claims take of the room of drivers that tell how much they have."""
        for needed, found in self._provisioned:
            where = needed & (found.numbers != UNTRACKED)
            if where.any():
                requested = whole(found.claim.milli_request or 0)
                yield StorageUse(found.claim.storage_class, where, requested, found.rooms())

    def _fail(self, where: Bools, text: str) -> None:
        """Something is wrong with the objects; on such nodes nothing else is said."""
        self.verdicts.bits[where] = 0
        self.verdicts.reject(where, Reason(text, Code.ERROR))
        self._alive &= ~where

    # Bound claims

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim]) -> None:
        """Claims in their order: the first that does not fit is the one reported."""
        fitting = self._alive.copy()
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                self.verdicts.reject(fitting, VOLUME_MISSING)
                return
            reached = self._reached(volume, fitting)
            self.verdicts.reject(fitting & ~reached & self._alive, NODE_CONFLICT)
            fitting &= reached
            if not fitting.any():
                return

    def _reached(self, volume: PersistentVolume, asked: Bools) -> Bools:
        """Where a volume is reached, in the terms that hold on each node."""
        reached = self._topology.mask(volume.required_nodes)
        plugin = translated(volume.spec)
        if plugin is None:
            return reached
        migrated = self._topology.migrated(plugin.name)
        if not migrated.any():
            return reached
        try:
            at_driver = self._topology.mask(required_nodes_at_driver(volume, plugin))
        except TranslationError as error:
            self._fail(asked & migrated, f"could not translate pv: {error}")
            return reached & ~migrated
        return np.where(migrated, at_driver, reached)

    # Claims to bind

    def _place_delayed(self, delayed: Sequence[DelayedClaim]) -> None:
        asked = self._alive.copy()
        chosen, unplaced = [], []
        for claim in delayed:
            if claim.claim.selected_node is None:
                unplaced.append(claim)
            else:
                chosen.append(claim)
                elsewhere = np.ones(len(self._nodes), np.bool_)
                place = self._place_of(claim.claim.selected_node)
                if place is not None:
                    elsewhere[place] = False
                self.verdicts.reject(asked & elsewhere, BIND_CONFLICT)
                asked &= ~elsewhere
        if not asked.any():
            return
        needed = [(asked, claim) for claim in chosen]
        # The smallest claims choose first, so that large volumes are left for large claims.
        unplaced.sort(key=lambda claim: claim.claim.milli_request or 0)
        if unplaced:
            try:
                matches = self._match(unplaced)
            except MatchingError as error:
                self._fail(asked, str(error))
                return
            for claim, match in zip(unplaced, matches, strict=True):
                needed.append((asked & (match.numbers == NONE), claim))
        self._provision(needed)

    def _place_of(self, node_name: str) -> int | None:
        row = self._nodes.row_of(node_name)
        if row is None:
            return None
        places = np.flatnonzero(self._nodes.rows == row)
        return int(places[0]) if len(places) else None

    def _match(self, delayed: Sequence[DelayedClaim]) -> list[Match]:
        names = {claim.claim.storage_class for claim in delayed}
        volumes = {name: list(self._volumes.of_class(name)) for name in names}
        self._matches = Matches(volumes, self._topology, len(self._nodes))
        return [self._matches.add(claim.claim) for claim in delayed]

    def _provision(self, needed: Sequence[tuple[Bools, DelayedClaim]]) -> None:
        """Claims in their order: the first for which no volume can be made is reported."""
        fitting = self._alive.copy()
        for where, claim in needed:
            if not where.any():
                continue
            found = provision(claim, self._nodes, self._listers)
            self._provisioned.append((where, found))
            asked = where & fitting
            self.verdicts.reject(asked & ~found.allowed, BIND_CONFLICT)
            self.verdicts.reject(asked & found.allowed & ~found.enough, NOT_ENOUGH_SPACE)
            fitting &= ~where | (found.allowed & found.enough)
