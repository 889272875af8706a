"""Which driver attaches which volumes for a pod.

Owns the way from a pod's volume over its claim to the driver and the volume's name there, and
upstream's complaints on that way. Keeps nothing; it tells what it looked up to those who do.
"""

from collections.abc import Mapping
from typing import NamedTuple

from moorage.cluster.listers import Listers
from moorage.errors import TranslationError
from moorage.framework.status import Code, Reason
from moorage.model.csi_migration import handle_of, handle_of_volume, plugin_named, translated
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    claim_not_found,
    not_made_for,
)
from moorage.model.volumes import Volume
from moorage.plugins.errors import UncountableError

Volumes = Mapping[str, str]
"""What a driver calls a volume, made unique by the driver's name -> the driver."""

LookedUp = tuple[type[ApiObject], str, str]
"""An object that was looked up, whether it was found or not: its kind, namespace and name."""

# Upstream draws a random prefix, so that no driver's handle equals that of an unbound claim.
_UNBOUND = "\0"


class GuestVolumes(NamedTuple):
    """What is attached for a pod on a node, true until an object of `looked_up` changes."""

    volumes: Volumes
    problem: Reason | None
    """Why its volumes cannot be counted."""
    looked_up: frozenset[LookedUp]


class DriverVolumes:
    """Looks up the volumes of pods."""

    def __init__(self, listers: Listers) -> None:
        self.claims = listers.of(PersistentVolumeClaim)
        self.volumes = listers.of(PersistentVolume)
        self.classes = listers.of(StorageClass)

    def wanted(self, pod: Pod, *, migrated: bool) -> Volumes:
        """The volumes of a pod to be placed; raises `UncountableError`."""
        return _Visit(self, pod, migrated=migrated, strict=True).volumes()

    def of_guest(self, pod: Pod) -> GuestVolumes:
        """The volumes of a pod on a node; claims that are missing do not count."""
        visit, problem = _Visit(self, pod, migrated=True, strict=False), None
        try:
            visit.volumes()
        except UncountableError as error:
            problem = error.reason
        return GuestVolumes(visit.found, problem, frozenset(visit.looked_up))

    def of_attachment(self, attachment: VolumeAttachment) -> tuple[str, str] | None:
        """(volume, driver) of a VolumeAttachment, if that can be said."""
        name, driver = attachment.spec.source.persistent_volume_name, attachment.spec.attacher
        volume = self.volumes.get(name) if name is not None and driver else None
        if volume is None or volume.spec.csi is None:
            return None
        return f"{driver}/{volume.spec.csi.volume_handle}", driver


class _Visit:
    """One pod's volumes, and the objects they were looked up in."""

    def __init__(self, objects: DriverVolumes, pod: Pod, *, migrated: bool, strict: bool) -> None:
        self._objects = objects
        self._pod = pod
        self._migrated = migrated
        self._strict = strict  # insist on finding all claims
        self.found: dict[str, str] = {}
        self.looked_up: set[LookedUp] = set()

    def volumes(self) -> Volumes:
        for volume in self._pod.spec.volumes:
            name = volume.claim_name(self._pod.name)
            located = self._inline(volume) if name is None else self._claimed(volume, name)
            if located is not None:
                driver, handle = located
                self.found[f"{driver}/{handle}"] = driver
        return self.found

    def _inline(self, volume: Volume) -> tuple[str, str] | None:
        plugin = translated(volume)
        if plugin is None or not self._migrated:
            return None
        try:
            return plugin.driver, handle_of(volume)
        except TranslationError as error:
            text = f"converting volume({volume.name}) from inline to csi: {error}"
            raise UncountableError(text) from error

    def _claimed(self, volume: Volume, name: str) -> tuple[str, str] | None:
        """The driver of a claim and the volume's name there, if that can be said."""
        if not name:
            raise UncountableError("PersistentVolumeClaim had no name")
        pod = self._pod
        self.looked_up.add((PersistentVolumeClaim, pod.namespace, name))
        claim = self._objects.claims.get(name, pod.namespace)
        if claim is None:
            if not self._strict:
                return None
            text = f"looking up PVC {pod.namespace}/{name}: {claim_not_found(name)}"
            raise UncountableError(text, Code.UNRESOLVABLE)
        if volume.persistent_volume_claim is None:
            objection = not_made_for(pod, claim)
            if objection is not None:
                raise UncountableError(objection)
        driver, handle = self._driver_and_handle(claim)
        return (driver, handle) if driver and handle else None

    def _driver_and_handle(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        name = claim.spec.volume_name
        volume = None
        if name:
            self.looked_up.add((PersistentVolume, "", name))
            volume = self._objects.volumes.get(name)
        if volume is None:
            return self._future_driver(claim)
        if volume.spec.csi is not None:
            return volume.spec.csi.driver, volume.spec.csi.volume_handle
        plugin = translated(volume.spec)
        if plugin is None or not self._migrated:
            return "", ""
        try:
            return plugin.driver, handle_of_volume(volume)
        except TranslationError:
            return "", ""

    def _future_driver(self, claim: PersistentVolumeClaim) -> tuple[str, str]:
        """A claim without a volume counts for the driver that will provision it."""
        self.looked_up.add((StorageClass, "", claim.storage_class))
        storage_class = self._objects.classes.get(claim.storage_class)
        if storage_class is None:
            return "", ""
        driver = storage_class.provisioner
        plugin = plugin_named(driver)
        if plugin is not None:
            if not plugin.scheduled or not self._migrated:
                return "", ""
            driver = plugin.driver
        return driver, f"{_UNBOUND}{claim.key}"
