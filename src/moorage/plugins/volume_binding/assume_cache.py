"""Volumes and claims as they will be once our own decisions have reached the API.

An overlay over a lister: an assumed object hides the stored one until a newer version arrives, or
until it is restored. Nothing is copied and no event is handled: versions are compared on reading.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from moorage.cluster.listers import Lister
from moorage.errors import StateError
from moorage.model.meta import ApiObject
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim

Kind = TypeVar("Kind", bound=ApiObject)


class AssumeCache(Generic[Kind]):
    """Objects of one kind, with our decisions laid over them."""

    def __init__(self, stored: Lister[Kind]) -> None:
        self.stored = stored
        self._assumed: dict[tuple[str, str], tuple[Kind, Kind]] = {}
        """Key -> (the stored object we started from, the object as we decided)."""

    def get(self, name: str, namespace: str = "") -> Kind | None:
        """One object as we decided it to be, or as stored."""
        stored = self.stored.get(name, namespace)
        return None if stored is None else self._over(stored)

    def _over(self, stored: Kind) -> Kind:
        assumed = self._assumed.get((stored.namespace, stored.name))
        if assumed is None:
            return stored
        origin, decided = assumed
        return decided if stored is origin or _same_version(stored, decided) else stored

    def assume(self, decided: Kind) -> None:
        """Let an object count as decided; it must stem from the version that is stored."""
        stored = self.stored.get(decided.name, decided.namespace)
        if stored is None:
            raise StateError(f'"{decided.key}" not found')
        theirs, ours = stored.metadata.resource_version, decided.metadata.resource_version
        if theirs != ours:
            raise StateError(f'"{decided.key}" is out of sync (stored: {theirs}, assume: {ours})')
        self._assumed[decided.namespace, decided.name] = (stored, decided)

    def restore(self, decided: Kind) -> None:
        """Take a decision back, unless a write or another decision has gone beyond it."""
        key = (decided.namespace, decided.name)
        assumed = self._assumed.get(key)
        if assumed is None:
            return
        if assumed[1].metadata.resource_version == decided.metadata.resource_version:
            del self._assumed[key]


class ClaimCache(AssumeCache[PersistentVolumeClaim]):
    """PersistentVolumeClaims."""


class VolumeCache(AssumeCache[PersistentVolume]):
    """PersistentVolumes, also to be had by storage class."""

    def __init__(self, stored: Lister[PersistentVolume]) -> None:
        super().__init__(stored)
        self._as_of = -1
        self._by_class: dict[str, list[PersistentVolume]] = {}

    def of_class(self, name: str) -> Iterator[PersistentVolume]:
        """All volumes of a class; a decision never changes a volume's class."""
        if self._as_of != self.stored.generation:
            self._by_class = {}
            for volume in self.stored:
                self._by_class.setdefault(volume.storage_class, []).append(volume)
            self._as_of = self.stored.generation
        return map(self._over, self._by_class.get(name, ()))


def _same_version(stored: ApiObject, decided: ApiObject) -> bool:
    # Objects that never saw an API server have no version: then only identity can tell.
    version = stored.metadata.resource_version
    return bool(version) and version == decided.metadata.resource_version
