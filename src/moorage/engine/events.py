"""Cluster events by name, and which of them a new version of an object amounts to.

Owns the way from two versions of a pod or node to events: as specific as possible, several if
several things changed. Must not know who is interested in an event; that is `requeueing`.
"""

from collections.abc import Mapping, Sequence

from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.resources import ResourceList, Resources, to_milli


class WildcardEvent(ClusterEvent, frozen=True):
    """An event that concerns pods whoever rejected them; known by a name of its own."""

    name: str


def _wildcard(name: str) -> WildcardEvent:
    return WildcardEvent(EventResource.WILDCARD, ActionType.ALL, name)


ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_UPDATE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE)
ASSIGNED_POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE)
UNSCHEDULED_POD_DELETE = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.DELETE)
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)
UNSCHEDULABLE_TIMEOUT = _wildcard("UnschedulableTimeout")
FORCE_ACTIVATE = _wildcard("ForceActivate")
PROFILES_CHANGED = _wildcard("ProfilesChanged")

# Moves within the queue that no event of the cluster causes go by these labels.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"

_ACTION_NAMES: Mapping[int, str] = {
    int(action): "".join(word.capitalize() for word in name.split("_"))
    for name, action in ActionType.__members__.items()
}


def label(event: ClusterEvent) -> str:
    """An event's name in metrics and logs, such as `NodeAdd` or `AssignedPodDelete`."""
    if isinstance(event, WildcardEvent):
        return event.name
    # Only whole registrations combine several actions, and those are never put into a metric.
    resource = event.resource
    name = resource.value if isinstance(resource, EventResource) else resource
    return name + _ACTION_NAMES.get(int(event.action), "")


def is_wildcard(event: ClusterEvent) -> bool:
    """Does the event concern pods whoever rejected them?"""
    return event.resource is EventResource.WILDCARD and event.action == ActionType.ALL


def pod_update_events(old: Pod, new: Pod, *, target: bool = False) -> Sequence[ClusterEvent]:
    """What a new version of a pod changed; a plain update if nothing that has a name of its own.

    `target`: the events are for the pod itself, which waits.
    """
    if new.spec.node_name:
        resource = EventResource.ASSIGNED_POD
    else:
        resource = EventResource.TARGET_POD if target else EventResource.UNSCHEDULED_POD
    events = [ClusterEvent(resource, action) for action in _pod_changes(old, new)]
    return events or [ClusterEvent(resource, ActionType.UPDATE)]


def node_update_events(old: Node, new: Node, *, declared_features: bool) -> Sequence[ClusterEvent]:
    """What a new version of a node changed; nothing if it is nothing a scheduler looks at.

    `declared_features` is the state of the gate NodeDeclaredFeatures.
    """
    return [
        ClusterEvent(EventResource.NODE, action)
        for action in _node_changes(old, new, declared_features)
    ]


def nominated_node_changed(old: Pod, new: Pod) -> bool:
    """Did a pod lose the node it was nominated to, so that others may count on it again?"""
    before = old.status.nominated_node_name
    return bool(before) and before != new.status.nominated_node_name


def _pod_changes(old: Pod, new: Pod) -> list[ActionType]:
    actions = []
    if old.labels != new.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    before, after = old.requests.occupied, new.requests.occupied
    if before is not after:
        if _exceeds(before, after):
            actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
        if _exceeds(after, before):
            actions.append(ActionType.UPDATE_POD_SCALE_UP)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # The API only lets tolerations be added, so counting them is enough, as upstream does.
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if _claims(old) != _claims(new):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return actions


def _claims(pod: Pod) -> tuple[object, ...]:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _exceeds(one: Resources, other: Resources) -> bool:
    """Is more asked for in the one than in the other, if only of something?"""
    return any(name not in other or other[name] < amount for name, amount in one.items())


def _node_changes(old: Node, new: Node, declared_features: bool) -> list[ActionType]:
    actions = []
    # There is no action for `unschedulable`, so upstream reports its end as a change of taints;
    # together with a real one that makes two equal events.
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _equal_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if old.labels != new.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _conditions(old) != _conditions(new):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if old.metadata.annotations != new.metadata.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if old.spec.pod_preemption_policy != new.spec.pod_preemption_policy:
        actions.append(ActionType.UPDATE_NODE_PREEMPTION_POLICY)
    if declared_features and old.status.declared_features != new.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return actions


def _equal_amounts(old: ResourceList, new: ResourceList) -> bool:
    # Nearly always the text is the same; only otherwise are "1" and "1000m" worth comparing.
    return old == new or to_milli(old) == to_milli(new)


def _conditions(node: Node) -> dict[str, str]:
    """Only type and status: a kubelet renews the other fields every few minutes."""
    return {condition.type: condition.status for condition in node.status.conditions}
