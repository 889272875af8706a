"""What the queue does with a pod: where it waits, since when, until when, and for what.

Owns the words. The queue is only read: no back-off is worked out in it and no hint is asked.
"""

from collections.abc import Iterable, Iterator

from moorage.cluster.pod_groups import group_of
from moorage.engine.events import label
from moorage.engine.queue.entities import (
    ACTIVE,
    BACKOFF,
    GATED,
    INCOMPLETE,
    PENDING,
    QueuedPodInfo,
)
from moorage.engine.scheduler import Scheduler
from moorage.explain.report import QueueState, Waker
from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.model.pod import Pod

IN_FLIGHT = "inFlight"
WAITING_ON_PERMIT = "waitingOnPermit"
BINDING = "binding"
ABSENT = "absent"

_MOST_SHOWN = 4

_OF_NODES = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_NODE_ALLOCATABLE,
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_TAINT,
    ActionType.UPDATE_NODE_CONDITION,
    ActionType.UPDATE_NODE_ANNOTATION,
    ActionType.UPDATE_NODE_DECLARED_FEATURE,
)
_OF_PODS_ON_NODES = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_SCALE_DOWN,
    ActionType.UPDATE_POD_SCALE_UP,
    ActionType.UPDATE,
)
_OF_THE_POD_ITSELF = (
    ActionType.UPDATE_POD_LABEL,
    ActionType.UPDATE_POD_SCALE_DOWN,
    ActionType.UPDATE_POD_SCALE_UP,
    ActionType.UPDATE_POD_TOLERATION,
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
    ActionType.UPDATE,
)
_OF_OTHERS = (ActionType.ADD, ActionType.UPDATE, ActionType.DELETE)
_POD_KINDS = (
    EventResource.POD,
    EventResource.ASSIGNED_POD,
    EventResource.UNSCHEDULED_POD,
    EventResource.TARGET_POD,
)


def queue_state(scheduler: Scheduler, pod: Pod) -> QueueState:
    """What becomes of a pod at the moment."""
    queue = scheduler.queue
    waiting = scheduler.waiting.get(pod.uid)
    if waiting is not None:
        names = waiting.pending_plugins
        message = f"on its way to {waiting.node_name}, held back by {_listed(names)}"
        return QueueState(
            WAITING_ON_PERMIT, pending_plugins=names, message=message, next_retry=waiting.deadline
        )
    if scheduler.state.is_assumed(pod):
        node = scheduler.state.node_of(pod)
        return QueueState(BINDING, message=f"being bound to {node}")
    if queue.is_in_flight(pod):
        return QueueState(IN_FLIGHT, message="being tried at this moment")
    info = queue.view.find(pod)
    if info is None or info.pod.uid != pod.uid:
        return QueueState(ABSENT, message="not in the queue of this scheduler")
    return _waiting(scheduler, info)


def _waiting(scheduler: Scheduler, info: QueuedPodInfo) -> QueueState:
    place = scheduler.queue.view.place_of(info)
    wakers = () if place in (ACTIVE, BACKOFF, INCOMPLETE, PENDING) else _wakers(scheduler, info)
    return QueueState(
        place,
        attempts=info.attempts,
        added=info.timestamp,
        initial_attempt=info.initial_attempt_timestamp,
        next_retry=scheduler.queue.next_try(info),
        unschedulable_plugins=tuple(sorted(info.unschedulable_plugins)),
        pending_plugins=tuple(sorted(info.pending_plugins)),
        gated_by=info.gating_plugin,
        waits_for=wakers,
        message=_sentence(info, place, wakers),
    )


def _wakers(scheduler: Scheduler, info: QueuedPodInfo) -> tuple[Waker, ...]:
    plugins: dict[str, dict[str, None]] = {}
    for plugin, registered in scheduler.queue.woken_by(info):
        for event in _incoming(registered, workloads=scheduler.groups.enabled):
            plugins.setdefault(label(event), {})[plugin] = None
    return tuple(Waker(event, tuple(sorted(names))) for event, names in plugins.items())


def _incoming(registered: ClusterEvent, *, workloads: bool) -> Iterator[ClusterEvent]:
    """The events that may come in and that a registration asks for, one for each kind of change."""
    resource = registered.resource
    kinds: Iterable[tuple[EventResource | str, tuple[ActionType, ...]]]
    if resource is EventResource.WILDCARD:
        yield registered
        return
    if resource is EventResource.NODE:
        kinds = ((resource, _OF_NODES),)
    elif resource in _POD_KINDS:
        kinds = (
            (EventResource.ASSIGNED_POD, _OF_PODS_ON_NODES),
            (EventResource.UNSCHEDULED_POD, (ActionType.ADD,) if workloads else ()),
            (EventResource.TARGET_POD, _OF_THE_POD_ITSELF),
        )
    else:
        kinds = ((resource, _OF_OTHERS),)
    for kind, actions in kinds:
        for action in actions:
            event = ClusterEvent(kind, action)
            if registered.matches(event):
                yield event


def _sentence(info: QueuedPodInfo, place: str, wakers: tuple[Waker, ...]) -> str:
    tries = "not tried yet" if not info.attempts else f"tried {_times(info.attempts)}"
    if place == ACTIVE:
        return f"ready to be tried, {tries}"
    if place == BACKOFF:
        return f"{tries}; waits for its back-off to end before the next try"
    if place == INCOMPLETE:
        group = group_of(info.pod)
        return f"waits for pod group {group} to be created"
    if place == PENDING:
        return f"{tries}; waits until the attempt at its pod group has ended"
    if place == GATED and not info.gated:
        return f"{tries}; kept out of the queue with another pod of its group"
    events = [waker.event for waker in wakers]
    awaited = _listed(events) if events else "any change of the cluster"
    if place == GATED:
        return f"kept out of the queue by {info.gating_plugin}; waits for {awaited}"
    rejectors = _listed(sorted(info.rejectors)) if info.rejectors else "an error"
    return f"{tries}, turned away by {rejectors}; waits for {awaited}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _listed(names: Iterable[str]) -> str:
    """Some names in a sentence."""
    shown = list(names)
    if len(shown) > _MOST_SHOWN:
        shown = [*shown[: _MOST_SHOWN - 1], f"{len(shown) - _MOST_SHOWN + 1} more"]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else ""
