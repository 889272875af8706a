"""What the API says happened, applied to the cluster state and the queue.

Each method takes one event of one object, changes the cluster state, and reports to the queue which
cluster event that amounts to. `kube.live.event_handler` has informers call them. Must not decide
anything about pods: that is the cycle's work.
"""

from collections.abc import Callable, Mapping

from moorage import log_lines
from moorage.cluster.state import ClusterState
from moorage.engine.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    label,
    node_update_events,
    nominated_node_changed,
    pod_update_events,
)
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.queue import SchedulingQueue
from moorage.engine.recording import NO_RECORD, DecisionRecorder
from moorage.errors import CorruptStateError, StateError
from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.framework.plugin import Handle
from moorage.framework.profile import Profile
from moorage.log_fields import Line
from moorage.model.devices import DeviceTaintRule, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

Change = Callable[[Pod], None]

_RESOURCE_OF = {one.value.rpartition("/")[2]: one for one in EventResource}
"""By kind. Changes of these may wake pods; objects of other kinds are only looked up."""


class EventHandlers:
    """Keeps one scheduler's cluster state and queue up to date.

    `observer` gets how long each event took, by the event's label.
    """

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        handle: Handle,
        observer: SchedulerObserver,
    ) -> None:
        self._observer = observer
        self.recorder: DecisionRecorder = NO_RECORD
        self._state = state
        self._queue = queue
        self._profiles = profiles
        self._waiting = handle.waiting
        self._preempting = handle.preempting
        self._pods = state.listers.of(Pod)
        self._groups = handle.groups
        self._declared_features = handle.gates.enabled("NodeDeclaredFeatures")

    # Pods

    def add_pod(self, pod: Pod) -> None:
        self.recorder.changed(pod)
        self._pods.put(pod)
        if pod.spec.node_name:
            self._add_assigned(pod)
        elif self._is_responsible(pod):
            started = self._observer.time()
            log_lines.ADD_PENDING(pod)
            self._groups.put(pod)
            self._queue.add(pod)
            if self._groups.enabled:
                # It may be the one that others of its gang wait for.
                self._queue.move_all_to_active_or_backoff(UNSCHEDULED_POD_ADD, None, pod)
            self._handled(UNSCHEDULED_POD_ADD, started)

    def update_pod(self, old: Pod, new: Pod) -> None:
        self.recorder.changed(new, old)
        self._pods.put(new)
        if new.terminating:
            self._preempting.left(new)
        if old.spec.node_name:
            self._update_assigned(old, new)
        elif new.spec.node_name:
            self._add_assigned(new)
            if self._is_responsible(old):
                # Bound, by us or somebody else; either way nobody is woken because it left.
                started = self._observer.time()
                log_lines.DELETE_PENDING(old)
                self._queue.delete(old)
                self._handled(UNSCHEDULED_POD_DELETE, started)
        elif self._is_responsible(old) or self._state.is_assumed(old):
            self._update_pending(old, new)

    def delete_pod(self, pod: Pod) -> None:
        self.recorder.deleted(pod)
        started = self._observer.time()
        self._pods.remove(pod)
        self._preempting.left(pod)
        if pod.spec.node_name:
            log_lines.DELETE_ASSIGNED(pod)
            self._apply(log_lines.CACHE_REMOVE_FAILED, self._state.remove_pod, pod)
            self._groups.remove(pod)
            self._wake(ASSIGNED_POD_DELETE, pod, None, started)
        elif self._is_responsible(pod) or self._state.is_assumed(pod):
            # One that is assumed may be of a profile that is not configured any more.
            log_lines.DELETE_PENDING(pod)
            self._queue.delete(pod)
            self._groups.remove(pod)
            if self._state.is_assumed(pod):
                self._drop_assumed(pod)
            elif pod.status.nominated_node_name:
                self._free_nomination(pod)
            self._handled(UNSCHEDULED_POD_DELETE, started)

    def _add_assigned(self, pod: Pod) -> None:
        started = self._observer.time()
        log_lines.ADD_ASSIGNED(pod)
        self._apply(log_lines.CACHE_ADD_FAILED, self._state.add_pod, pod)
        self._groups.put(pod)
        self._wake(ASSIGNED_POD_ADD, None, pod, started)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        started = self._observer.time()
        log_lines.UPDATE_ASSIGNED(old)
        self._apply(log_lines.CACHE_UPDATE_FAILED, self._state.update_pod, new)
        self._groups.put(new)
        for event in pod_update_events(old, new):
            self._wake(event, old, new, started)
        # As upstream, which measures the whole beside its parts, even where that is the same.
        self._handled(ASSIGNED_POD_UPDATE, started)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version and (
            old.metadata.resource_version == new.metadata.resource_version
        ):
            return
        started = self._observer.time()
        self._groups.put(new)
        if self._state.is_assumed(new):
            if new.terminating and not old.terminating:
                self._drop_assumed(new)
        else:
            log_lines.UPDATE_PENDING(new)
            self._queue.update(old, new)
            if nominated_node_changed(old, new):
                self._free_nomination(old)
        events = dict.fromkeys((UNSCHEDULED_POD_UPDATE, *pod_update_events(old, new)))
        for event in sorted(events, key=label):
            self._handled(event, started)

    def _drop_assumed(self, pod: Pod) -> None:
        """A pod that is on its way to a node was deleted."""
        left = pod.on_node(self._state.node_of(pod) or "")
        waiting = self._waiting.get(pod.uid)
        if waiting is not None:
            waiting.reject("", "removed")
        else:
            self.recorder.forgotten(pod)
            self._state.forget(pod)
            self._groups.remove(pod)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, left, None)

    def _free_nomination(self, pod: Pod) -> None:
        """The place a pod waited for is free again, for pods that had to keep off it."""
        most = pod.priority
        self._queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= most
        )

    def _is_responsible(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self._profiles

    def _wake(
        self, event: ClusterEvent, old: ApiObject | None, new: ApiObject | None, started: float
    ) -> None:
        """Wake the pods that an event may help: then it is handled."""
        self._queue.move_all_to_active_or_backoff(event, old, new)
        self._handled(event, started)

    def _handled(self, event: ClusterEvent, started: float) -> None:
        self._observer.event_handled(label(event), self._observer.time() - started)

    # Nodes

    def add_node(self, node: Node) -> None:
        self.recorder.changed(node)
        started = self._observer.time()
        log_lines.ADD_NODE(node)
        self._state.add_node(node)
        log_lines.NODE_ADDED(node, node.zone)
        self._wake(NODE_ADD, None, node, started)

    def update_node(self, old: Node, new: Node) -> None:
        self.recorder.changed(new, old)
        started = self._observer.time()
        log_lines.UPDATE_NODE(new)
        self._state.add_node(new)
        for event in node_update_events(old, new, declared_features=self._declared_features):
            self._wake(event, old, new, started)

    def delete_node(self, node: Node) -> None:
        """A node is gone; pods are woken before the state changes, as upstream does."""
        self.recorder.deleted(node)
        started = self._observer.time()
        self._queue.move_all_to_active_or_backoff(NODE_DELETE, node, None)
        log_lines.DELETE_NODE(node)
        try:
            self._state.remove_node(node.name)
            log_lines.NODE_REMOVED(node, node.zone)
        except StateError as error:
            log_lines.CACHE_REMOVE_NODE_FAILED(error)
        self._handled(NODE_DELETE, started)

    # Everything else

    def add_object(self, obj: ApiObject, custom_resource: str = "") -> None:
        """An object of another kind appeared; custom resources come with their name."""
        self.recorder.changed(obj)
        self._state.listers.put(obj, custom_resource or type(obj))
        if isinstance(obj, PodGroup) and self._groups.enabled:
            log_lines.ADD_GROUP(obj)
            self._queue.groups.group_added(obj)
        self._report(ActionType.ADD, None, obj, custom_resource)

    def update_object(self, old: ApiObject, new: ApiObject, custom_resource: str = "") -> None:
        self.recorder.changed(new, old)
        self._state.listers.put(new, custom_resource or type(new))
        if isinstance(new, PodGroup) and self._groups.enabled:
            log_lines.UPDATE_GROUP(new)
            self._queue.groups.group_updated(new)
        self._report(ActionType.UPDATE, old, new, custom_resource)

    def delete_object(self, obj: ApiObject, custom_resource: str = "") -> None:
        self.recorder.deleted(obj)
        self._state.listers.remove(obj, custom_resource or type(obj))
        if isinstance(obj, PodGroup) and self._groups.enabled:
            log_lines.DELETE_GROUP(obj)
            self._queue.groups.group_deleted(obj)
        self._report(ActionType.DELETE, obj, None, custom_resource)

    def _report(
        self,
        action: ActionType,
        old: ApiObject | None,
        new: ApiObject | None,
        custom_resource: str,
    ) -> None:
        if isinstance(old or new, DeviceTaintRule):
            self._report_taints(old, new)
            return
        resource = custom_resource or _RESOURCE_OF.get(type(old or new).__name__)
        if resource is not None:
            self._wake(ClusterEvent(resource, action), old, new, self._observer.time())

    def _report_taints(self, old: ApiObject | None, new: ApiObject | None) -> None:
        """A rule counts as a change of the slices whose devices gain or lose a taint by it."""
        rules = [rule for rule in (old, new) if isinstance(rule, DeviceTaintRule)]
        if len(rules) == 2 and rules[0].spec == rules[1].spec:
            return
        for offered in self._state.listers.of(ResourceSlice):
            if any(rule.taints_slice(offered) for rule in rules):
                event = ClusterEvent(EventResource.RESOURCE_SLICE, ActionType.UPDATE)
                self._queue.move_all_to_active_or_backoff(event, offered, offered)
                return  # more of them would wake nobody else

    def _apply(self, failed: Line, change: Change, pod: Pod) -> None:
        """Change the state; a contradiction is logged, unless nothing can be trusted any more."""
        try:
            change(pod)
        except CorruptStateError:
            raise
        except StateError as error:
            failed(error, pod)
