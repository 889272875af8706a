"""Which changes may let a pod try again that its volumes kept from being placed."""

from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    QueueingHint,
    on,
)
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


def _hint(queue: bool) -> QueueingHint:
    return QueueingHint.QUEUE if queue else QueueingHint.SKIP


def _after_class_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del pod
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return QueueingHint.QUEUE
    return _hint(old.allowed_topologies != new.allowed_topologies)


def _after_claim_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del old
    return _hint(not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new))


def _after_csi_node_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del pod
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    before, after = old.metadata.annotations, new.metadata.annotations
    return _hint(before.get(MIGRATED_PLUGINS, "") != after.get(MIGRATED_PLUGINS, ""))


def _after_driver_update(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    """Upstream looks for the driver among inline volumes only, although those have no capacity."""
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return QueueingHint.QUEUE
    disabled = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    volumes = pod.spec.volumes
    return _hint(disabled and any(v.csi is not None and v.csi.driver == new.name for v in volumes))


def _after_capacity_change(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> QueueingHint:
    del pod
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return QueueingHint.QUEUE
    before, after = old.milli_limit, new.milli_limit
    return _hint(after is not None and (before is None or whole(after) > whole(before)))
