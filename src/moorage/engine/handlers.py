"""What the API says happened, applied to the cluster state and the queue.

Each method takes one event of one object, changes the books, and tells the queue which cluster
event that amounts to. Must not decide anything about pods: that is the cycle's work.
"""

import logging
from collections.abc import Callable, Mapping

from moorage.cluster.state import ClusterState
from moorage.engine.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_POD_ADD,
    node_update_events,
    nominated_node_changed,
    pod_update_events,
)
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.requeueing import priority_at_most
from moorage.errors import CorruptStateError, StateError
from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.framework.permit import WaitingPods
from moorage.framework.plugin import Handle
from moorage.framework.profile import Profile
from moorage.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

log = logging.getLogger(__name__)

Change = Callable[[Pod], None]

RESOURCE_OF: Mapping[type[ApiObject], EventResource] = {
    PersistentVolume: EventResource.PERSISTENT_VOLUME,
    PersistentVolumeClaim: EventResource.PERSISTENT_VOLUME_CLAIM,
    StorageClass: EventResource.STORAGE_CLASS,
    CSINode: EventResource.CSI_NODE,
    CSIDriver: EventResource.CSI_DRIVER,
    CSIStorageCapacity: EventResource.CSI_STORAGE_CAPACITY,
    VolumeAttachment: EventResource.VOLUME_ATTACHMENT,
    ResourceClaim: EventResource.RESOURCE_CLAIM,
    ResourceSlice: EventResource.RESOURCE_SLICE,
    DeviceClass: EventResource.DEVICE_CLASS,
    PodGroup: EventResource.POD_GROUP,
}
"""Kinds whose changes may wake pods; the others are only looked up."""


class EventHandlers:
    """The books of one scheduler, kept by what its informers report.

    `workloads` is the plugins' handle if pods may come in groups.
    """

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        waiting: WaitingPods,
        workloads: Handle | None = None,
    ) -> None:
        self._state = state
        self._queue = queue
        self._profiles = profiles
        self._waiting = waiting
        self._pods = state.listers.of(Pod)
        self._groups = None if workloads is None else workloads.groups
        self._gangs = workloads is not None and workloads.gates.enabled("GangScheduling")

    # Pods

    def add_pod(self, pod: Pod) -> None:
        """A pod appeared."""
        self._pods.put(pod)
        if pod.spec.node_name:
            self._add_assigned(pod)
        elif self._ours(pod):
            if self._groups is not None:
                self._groups.put(pod)
            self._queue.add(pod)
            if self._gangs:
                # It may be the one that others of its gang wait for.
                self._queue.move_all_to_active_or_backoff(UNSCHEDULABLE_POD_ADD, None, pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """A pod changed."""
        self._pods.put(new)
        if old.spec.node_name:
            self._book("update", self._state.update_pod, new)
            if self._groups is not None:
                self._groups.put(new)
            for event in pod_update_events(old, new):
                self._queue.move_all_to_active_or_backoff(event, old, new)
        elif new.spec.node_name:
            self._add_assigned(new)
            if self._ours(old):
                # Bound, by us or somebody else; either way nobody is woken because it left.
                self._queue.delete(old)
        elif self._ours(old) or self._state.is_assumed(old):
            self._update_pending(old, new)

    def delete_pod(self, pod: Pod) -> None:
        """A pod is gone."""
        self._pods.remove(pod)
        if self._groups is not None:
            self._groups.remove(pod)
        if pod.spec.node_name:
            self._book("remove", self._state.remove_pod, pod)
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
        elif self._ours(pod) or self._state.is_assumed(pod):
            # One that is assumed may be of a profile that is not configured any more.
            self._queue.delete(pod)
            if self._state.is_assumed(pod):
                self._drop_assumed(pod)
            elif pod.status.nominated_node_name:
                self._free_nomination(pod)

    def _add_assigned(self, pod: Pod) -> None:
        self._book("add", self._state.add_pod, pod)
        if self._groups is not None:
            self._groups.put(pod)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version and (
            old.metadata.resource_version == new.metadata.resource_version
        ):
            return
        if self._groups is not None:
            self._groups.put(new)
        if self._state.is_assumed(new):
            if new.terminating and not old.terminating:
                self._drop_assumed(new)
            return
        self._queue.update(old, new)
        if nominated_node_changed(old, new):
            self._free_nomination(old)

    def _drop_assumed(self, pod: Pod) -> None:
        """A pod that is on its way to a node was deleted."""
        left = pod.on_node(self._state.node_of(pod) or "")
        waiting = self._waiting.get(pod.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self._state.forget(pod)
            if self._groups is not None:
                self._groups.forget(pod)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, left, None)

    def _free_nomination(self, pod: Pod) -> None:
        """The place a pod waited for is free again, for pods that had to keep off it."""
        self._queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, pod, None, priority_at_most(pod)
        )

    def _ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    # Nodes

    def add_node(self, node: Node) -> None:
        """A node appeared."""
        self._state.add_node(node)
        self._queue.move_all_to_active_or_backoff(NODE_ADD, None, node)

    def update_node(self, old: Node, new: Node) -> None:
        """A node changed."""
        self._state.add_node(new)
        for event in node_update_events(old, new):
            self._queue.move_all_to_active_or_backoff(event, old, new)

    def delete_node(self, node: Node) -> None:
        """A node is gone; pods are woken before the books change, as upstream does."""
        self._queue.move_all_to_active_or_backoff(NODE_DELETE, node, None)
        try:
            self._state.remove_node(node.name)
        except StateError as error:
            log.error("node %s: %s", node.name, error)

    # Everything else

    def add_object(self, obj: ApiObject, custom_resource: str = "") -> None:
        """An object of another kind appeared; custom resources come with their name."""
        self._state.listers.of(type(obj)).put(obj)
        self._tell(ActionType.ADD, None, obj, custom_resource)

    def update_object(self, old: ApiObject, new: ApiObject, custom_resource: str = "") -> None:
        """An object of another kind changed."""
        self._state.listers.of(type(new)).put(new)
        self._tell(ActionType.UPDATE, old, new, custom_resource)

    def delete_object(self, obj: ApiObject, custom_resource: str = "") -> None:
        """An object of another kind is gone."""
        self._state.listers.of(type(obj)).remove(obj)
        self._tell(ActionType.DELETE, obj, None, custom_resource)

    def _tell(
        self,
        action: ActionType,
        old: ApiObject | None,
        new: ApiObject | None,
        custom_resource: str,
    ) -> None:
        kinds = {type(obj) for obj in (old, new) if obj is not None}
        resource = custom_resource or RESOURCE_OF.get(kinds.pop())
        if resource is not None:
            event = ClusterEvent(resource, action)
            self._queue.move_all_to_active_or_backoff(event, old, new)

    def _book(self, what: str, change: Change, pod: Pod) -> None:
        """Change the state; a contradiction is logged, unless nothing can be trusted any more."""
        try:
            change(pod)
        except CorruptStateError:
            raise
        except StateError as error:
            log.error("cannot %s pod %s: %s", what, pod.key, error)
