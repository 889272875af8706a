"""The scheduler's own tracker about claims: assumed, in flight, and whose devices are in use.

Owns the claim as the scheduler has to see it: what was just written to the API counts before the
watch shows it, and devices promised to a pod count before anything is written. Shared by all
profiles (`Listers.shared`), as they draw on the same devices.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from moorage.cluster.listers import Lister, Listers
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import Handle
from moorage.model.devices import (
    DEVICE_CLASS_PREFIX,
    EXTENDED_RESOURCE_CLAIM,
    AllocationResult,
    DeviceClass,
    ResourceClaim,
)
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.resources import is_extended
from moorage.plugins.dynamic_resources.claim_writes import ClaimWrite
from moorage.plugins.dynamic_resources.demands import Allocator
from moorage.plugins.dynamic_resources.pools import Inventory
from moorage.plugins.dynamic_resources.search import SearchClock
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors
from moorage.plugins.dynamic_resources.slices import Features, TaintedSlices
from moorage.plugins.dynamic_resources.usage import DeviceUsage


@dataclass(slots=True)
class _InFlight:
    claim: ResourceClaim
    sharers: int = 1


class ClaimTracker:
    """Claims, devices and classes as the scheduler sees them."""

    @classmethod
    def shared(cls, handle: Handle) -> "ClaimTracker":
        """The one that all profiles have in common."""
        listers = handle.listers
        return listers.shared(cls, lambda: cls(listers, handle.gates, handle.pacing))

    def __init__(
        self,
        listers: Listers,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        pacing: Pacing | None = None,
    ) -> None:
        self._claims = listers.of(ResourceClaim)
        self.groups = listers.of(PodGroup)
        self.group_claims = gates.enabled("DRAWorkloadResourceClaims")
        """May claims belong to pod groups?"""
        self.node_allocatable = gates.enabled("DRANodeAllocatableResources")
        """May devices count as cpu or memory of their node?"""
        self.classes = listers.of(DeviceClass)
        enabled = gates.enabled
        self.features = Features(
            admin_access=enabled("DRAAdminAccess"),
            binding_conditions=enabled("DRADeviceBindingConditions")
            and enabled("DRAResourceClaimDeviceStatus"),
            compatibility_groups=enabled("DRADeviceCompatibilityGroups"),
            consumable_capacity=enabled("DRAConsumableCapacity"),
            device_taints=enabled("DRADeviceTaints"),
            fractional_capacity=enabled("DRAFractionalCapacityRange"),
            list_attributes=enabled("DRAListTypeAttributes"),
            optional_node_operations=enabled("DRAOptionalNodeOperations"),
            partitionable_devices=enabled("DRAPartitionableDevices"),
            prioritized_list=enabled("DRAPrioritizedList"),
        )
        self.clock = SearchClock(pacing or Pacing())
        self.usage = DeviceUsage(consumable_capacity=self.features.consumable_capacity)
        self.inventory = Inventory(
            TaintedSlices(listers, gates),
            DeviceSelectors(),
            self.features,
            self.clock.checkpoint,
        )
        self.allocator = Allocator(
            self.features, self.inventory, self.usage, self.classes, self.clock
        )
        self._extended_resources = enabled("DRAExtendedResource")
        self._class_of: dict[str, DeviceClass] = {}
        self._class_generation = -1
        self._assumed: dict[str, ResourceClaim] = {}
        self._in_flight: dict[str, _InFlight] = {}
        self._counted: dict[str, ResourceClaim] = {}
        """The claims whose devices `usage` knows, by key."""
        self._made_for: dict[str, dict[str, ResourceClaim]] = {}
        """Those made for extended resources, by the uids of their owners and by key."""
        self._generation = -1
        self.work: deque[ClaimWrite] = deque()
        """What is to be written, by whichever plugin comes first."""

    # Claims

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """A claim; what was assumed counts until the watch shows something newer."""
        self.refresh()
        return self._counted.get(f"{namespace}/{name}")

    def for_extended_resources(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was made for a pod's extended resources in an earlier attempt."""
        self.refresh()
        for _, claim in sorted(self._made_for.get(pod.uid, {}).items()):
            if any(
                owner.name == pod.name and owner.controller and owner.uid == pod.uid
                for owner in claim.metadata.owner_references
            ):
                return claim
        return None

    def refresh(self) -> None:
        """Follow the API objects."""
        claims = self._claims
        if self._generation == claims.generation:
            return
        changed: Iterable[tuple[str, str]] | None = claims.changes_since(self._generation)
        self._generation = claims.generation
        if changed is None:  # too much has happened: everything there is or was
            changed = {(claim.namespace, claim.name) for claim in claims}
            changed.update((claim.namespace, claim.name) for claim in self._counted.values())
        for namespace, name in changed:
            self._follow(f"{namespace}/{name}", claims.get(name, namespace))

    def _follow(self, key: str, latest: ResourceClaim | None) -> None:
        if self._counted.get(key) is latest:
            return
        assumed = self._assumed.get(key)
        if assumed is not None:
            if latest is not None and _newer(assumed, latest):
                return
            del self._assumed[key]
        self._record(key, latest)

    def _latest(self, claim: ResourceClaim) -> ResourceClaim | None:
        return self._claims.get(claim.name, claim.namespace)

    def _record(self, key: str, claim: ResourceClaim | None) -> None:
        known = self._counted.get(key)
        old = known.status.allocation if known is not None else None
        new = claim.status.allocation if claim is not None else None
        if known is None or claim is None or old != new:
            if known is not None:
                self.usage.remove(known)
            if claim is not None:
                self.usage.add(claim)
        for uid in _extended_for(known):
            made = self._made_for[uid]
            del made[key]
            if not made:
                del self._made_for[uid]
        if claim is None:
            self._counted.pop(key, None)
            return
        self._counted[key] = claim
        for uid in _extended_for(claim):
            self._made_for.setdefault(uid, {})[key] = claim

    def assume(self, claim: ResourceClaim) -> bool:
        """The API accepted this version of a claim; False if the watch does not know the claim."""
        self.refresh()
        latest = self._latest(claim)
        if latest is None:
            return False
        if _newer(claim, latest):
            self._assumed[claim.key] = claim
            self._record(claim.key, claim)
        return True

    def restore(self, claim: ResourceClaim) -> None:
        """Go back to what the watch shows."""
        if self._assumed.pop(claim.key, None) is not None:
            self._record(claim.key, self._latest(claim))

    # Allocations on their way to the API

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """The allocation of a claim that some pod is about to write."""
        in_flight = self._in_flight.get(uid)
        return in_flight.claim.status.allocation if in_flight is not None else None

    def add_in_flight(self, claim: ResourceClaim) -> None:
        """A pod is going to write this allocation; its devices are taken from now on."""
        uid = claim.metadata.uid
        in_flight = self._in_flight.get(uid)
        if in_flight is not None:
            in_flight.sharers += 1
            return
        known = self.get(claim.namespace, claim.name)
        if known is not None and known.metadata.uid == uid and known.allocated:
            return  # who promises it has not seen yet that another pod wrote it
        self._in_flight[uid] = _InFlight(claim)
        self.usage.add(claim)

    def remove_in_flight(self, uid: str, *, force: bool = False) -> bool:
        """One pod less will write it; True if that was the last one."""
        in_flight = self._in_flight.get(uid)
        if in_flight is None:
            return False
        if not force and in_flight.sharers > 1:
            in_flight.sharers -= 1
            return False
        del self._in_flight[uid]
        self.usage.remove(in_flight.claim)
        return True

    # Extended resources

    def class_for(self, resource: str) -> DeviceClass | None:
        """The class whose devices stand for an extended resource, if there is one."""
        if not self._extended_resources or not len(self.classes):
            return None
        if self._class_generation != self.classes.generation:
            self._class_generation = self.classes.generation
            self._class_of = _classes_by_resource(self.classes)
        return self._class_of.get(resource)


def backed_by_devices(name: str) -> bool:
    """May a resource of this name be backed by devices at all?"""
    return is_extended(name) or name.startswith(DEVICE_CLASS_PREFIX)


def _classes_by_resource(classes: Lister[DeviceClass]) -> dict[str, DeviceClass]:
    """Of classes that name the same resource the newest wins, then the one first by name.

    A class that loses keeps its implicit name only if it was there before the winner: that is how
    upstream's cache of the names comes out.
    """
    found: dict[str, DeviceClass] = {}
    for device_class in classes:
        name = device_class.spec.extended_resource_name
        if name is not None:
            rival = found.get(name)
            if rival is not None and not _replaces(device_class, rival):
                continue
            found[name] = device_class
        found[DEVICE_CLASS_PREFIX + device_class.name] = device_class
    return found


def _replaces(device_class: DeviceClass, rival: DeviceClass) -> bool:
    created = device_class.metadata.creation_timestamp or ""
    other = rival.metadata.creation_timestamp or ""
    return created > other or (created == other and device_class.name < rival.name)


def _extended_for(claim: ResourceClaim | None) -> set[str]:
    """The uids of the pods for whose extended resources a claim was made."""
    if claim is None or claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return set()
    return {owner.uid for owner in claim.metadata.owner_references}


def _newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Is a version of a claim later than another? Versions that are no numbers are not compared."""
    if claim.metadata.uid != other.metadata.uid:
        return False
    try:
        return int(claim.metadata.resource_version) > int(other.metadata.resource_version)
    except ValueError:
        return False
