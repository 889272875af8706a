"""VolumeZone: a bound volume labelled with zones or regions is reached only from there."""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.listers import Listers
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import FilterPlugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.csi_migration import ZONE_DELIMITER
from moorage.model.meta import ApiObject
from moorage.model.node import BETA_REGION_LABEL, BETA_ZONE_LABEL, REGION_LABEL, ZONE_LABEL
from moorage.model.pod import Pod
from moorage.model.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    claim_not_found,
    uses_claim,
)

TOPOLOGY_LABELS = (BETA_ZONE_LABEL, BETA_REGION_LABEL, ZONE_LABEL, REGION_LABEL)
# A volume may still carry the old name of a label that nodes have under the new one only.
_NEW_NAMES = {BETA_ZONE_LABEL: ZONE_LABEL, BETA_REGION_LABEL: REGION_LABEL}


class Topology(msgspec.Struct, frozen=True):
    """The values that one topology label of a volume allows."""

    key: str
    values: frozenset[str]


class VolumeZone(PreFilterPlugin[tuple[Topology, ...]], FilterPlugin[tuple[Topology, ...]]):
    """Refuse nodes in other zones than the pod's bound volumes."""

    name = "VolumeZone"
    looks_up = (PersistentVolume, PersistentVolumeClaim, StorageClass)
    reads = (Aspect.LABELS,)
    conflict = Reason("node(s) had no available volume zone", Code.UNRESOLVABLE)

    def pre_filter(
        self, pod: Pod, nodes: NodeView
    ) -> PreFilterResult[tuple[Topology, ...]] | Skip | Status:
        """Collect the labels of the pod's volumes."""
        if not pod.spec.volumes:
            return SKIP
        found = _topologies_of_pod(pod, self.handle.listers)
        if isinstance(found, Status):
            return found
        return PreFilterResult(found) if found else SKIP

    def filter(self, pod: Pod, nodes: NodeView, state: tuple[Topology, ...] | None) -> Verdicts:
        """Nodes without any such label are taken for a cluster in a single zone: they pass."""
        if state is None:
            found = _topologies_of_pod(pod, self.handle.listers)
            if isinstance(found, Status):
                everywhere = np.ones(len(nodes), np.bool_)
                return Verdicts(len(nodes)).reject(
                    everywhere, Reason(found.message, Code.UNRESOLVABLE)
                )
            state = found
        matching = np.ones(len(nodes), np.bool_)
        for topology in state:
            matching &= _within(topology, nodes)
        labelled = np.zeros(len(nodes), np.bool_)
        for key in TOPOLOGY_LABELS:
            labelled |= nodes.label(key).present
        return Verdicts(len(nodes), (self.conflict,)).reject(labelled & ~matching, self.conflict)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Whatever brings the missing object, or another zone."""
        change = ActionType.ADD | ActionType.UPDATE
        return [
            on(EventResource.STORAGE_CLASS, ActionType.ADD, _after_class_added),
            on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            on(EventResource.PERSISTENT_VOLUME_CLAIM, change, _after_claim_change),
            on(EventResource.PERSISTENT_VOLUME, change, _after_volume_change),
        ]


def _within(topology: Topology, nodes: NodeView) -> Bools:
    column = nodes.label(topology.key)
    matching = column.where(lambda value: value in topology.values)
    new_name = _NEW_NAMES.get(topology.key)
    if new_name is not None:
        renamed = nodes.label(new_name).where(lambda value: value in topology.values)
        matching |= ~column.present & renamed
    return matching


def _topologies_of_pod(pod: Pod, listers: Listers) -> tuple[Topology, ...] | Status:
    found: list[Topology] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        bound = _bound_volume(volume.persistent_volume_claim.claim_name, pod.namespace, listers)
        if isinstance(bound, str):
            return Status(Code.UNRESOLVABLE, (bound,))
        if bound is not None:
            found += topologies_of_volume(bound)
    return tuple(found)


def _bound_volume(name: str, namespace: str, listers: Listers) -> PersistentVolume | str | None:
    """The volume of a claim, None if it gets one only later, or why neither can be said."""
    if not name:
        return "PersistentVolumeClaim had no name"
    claim = listers.of(PersistentVolumeClaim).get(name, namespace)
    if claim is None:
        return claim_not_found(name)
    volume_name = claim.spec.volume_name
    if not volume_name:
        return _objection_to_unbound(claim, listers)
    volume = listers.of(PersistentVolume).get(volume_name)
    return f'persistentvolume "{volume_name}" not found' if volume is None else volume


def _objection_to_unbound(claim: PersistentVolumeClaim, listers: Listers) -> str | None:
    class_name = claim.storage_class
    if not class_name:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    storage_class = listers.of(StorageClass).get(class_name)
    if storage_class is None:
        return f'storageclass.storage.k8s.io "{class_name}" not found'
    if storage_class.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{class_name}"'
    if storage_class.waits_for_first_consumer:
        return None
    return "PersistentVolume had no name"


def topologies_of_volume(volume: PersistentVolume) -> list[Topology]:
    """What a volume's labels say; a label with an empty part says nothing at all."""
    found = []
    for key in TOPOLOGY_LABELS:
        text = volume.labels.get(key)
        if text is None:
            continue
        values = [part.strip() for part in text.split(ZONE_DELIMITER)]
        if all(values):
            found.append(Topology(key, frozenset(values)))
    return found


def _after_class_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, StorageClass) or new.waits_for_first_consumer


def _after_claim_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new, ephemeral=False)


def _after_volume_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return True
    return topologies_of_volume(old) != topologies_of_volume(new)
