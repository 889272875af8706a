"""Which changes may let a pod try again that its volumes kept from being placed."""

from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.quantity import whole
from moorage.model.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    uses_claim,
)


def events() -> list[EventRegistration]:
    """Everything that takes part in finding volumes."""
    change = ActionType.ADD | ActionType.UPDATE
    return [
        on(EventResource.STORAGE_CLASS, change, _after_class_change),
        on(EventResource.PERSISTENT_VOLUME_CLAIM, change, _after_claim_change),
        on(EventResource.PERSISTENT_VOLUME, change),
        on(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
        on(EventResource.CSI_NODE, change, _after_csi_node_change),
        on(EventResource.CSI_DRIVER, ActionType.UPDATE, _after_driver_update),
        on(EventResource.CSI_STORAGE_CAPACITY, change, _after_capacity_change),
    ]


def _after_class_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return True
    return old.allowed_topologies != new.allowed_topologies


def _after_claim_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    return not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new)


def _after_csi_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return True
    before, after = old.metadata.annotations, new.metadata.annotations
    return before.get(MIGRATED_PLUGINS, "") != after.get(MIGRATED_PLUGINS, "")


def _after_driver_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    """Upstream looks for the driver among inline volumes only, although those have no capacity."""
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return True
    disabled = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    volumes = pod.spec.volumes
    return disabled and any(v.csi is not None and v.csi.driver == new.name for v in volumes)


def _after_capacity_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return True
    before, after = old.milli_limit, new.milli_limit
    return after is not None and (before is None or whole(after) > whole(before))
