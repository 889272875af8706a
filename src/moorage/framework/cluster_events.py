"""Events of the cluster that may let a rejected pod try again, and plugins' hints about them."""

from collections.abc import Callable, Collection
from enum import Enum, IntFlag

import msgspec

from moorage.model.meta import ApiObject
from moorage.model.pod import Pod


class ActionType(IntFlag):
    """What happened to an object; the numbers are upstream's, because their order matters."""

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384
    UPDATE = 32764
    ALL = 32767


class EventResource(Enum):
    """The kind of object an event is about.

    Of pods there are three kinds: those on a node, the rejected pod itself (TARGET_POD), and others
    that have no node yet. POD in a registration stands for all of them.
    """

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


Resource = EventResource | str
"""A kind, or a custom resource as `<plural>.<version>.<group>`."""


class ClusterEvent(msgspec.Struct, frozen=True):
    """Something happened, or (in a registration) may happen, to objects of one kind."""

    resource: Resource
    action: ActionType

    def matches(self, incoming: "ClusterEvent") -> bool:
        """Is this registration interested in an event that came in?"""
        if self.resource is EventResource.WILDCARD:
            same = True
        elif self.resource is EventResource.POD:
            same = incoming.resource in (
                EventResource.POD,
                EventResource.ASSIGNED_POD,
                EventResource.UNSCHEDULED_POD,
                EventResource.TARGET_POD,
            )
        else:
            same = self.resource == incoming.resource
        # Upstream also asks that the incoming action is not the larger number.
        return same and bool(self.action & incoming.action) and incoming.action <= self.action


QueueingHint = Callable[[Pod, ApiObject | None, ApiObject | None], bool]
"""May the pod try again? (rejected pod, object before, object after); None: did not exist."""


class Subjects(msgspec.Struct, frozen=True):
    """What waiting pods and events are about, so that a hint is asked for few pods of many.

    A hint that comes with it must skip every pod that has no subject in common with the event.
    Subjects are names of any kind; None stands for all there are.
    """

    of_pod: Callable[[Pod], Collection[str] | None]
    """Must look at nothing but the pod."""
    of_event: Callable[[ApiObject | None, ApiObject | None], Collection[str] | None]
    """(object before, object after) -> subjects."""


class EventRegistration(msgspec.Struct, frozen=True):
    """An event that could un-reject a pod; without a hint it always does."""

    event: ClusterEvent
    hint: QueueingHint | None = None
    subjects: Subjects | None = None
    """For speed alone: spares the hint the pods it would skip anyway."""


def on(
    resource: Resource,
    action: ActionType,
    hint: QueueingHint | None = None,
    subjects: Subjects | None = None,
) -> EventRegistration:
    """A registration in one line."""
    return EventRegistration(ClusterEvent(resource, action), hint, subjects)
