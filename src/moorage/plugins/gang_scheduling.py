"""GangScheduling: the pods of a gang are bound together, or none of them is.

Owns the gates on a gang's way: into the queue only when enough pods exist, further in a try only
while enough of them may find a place, and to binding only when enough pods have one. Must not place
pods; the engine's pod-group cycle does.
"""

from collections.abc import Sequence

from moorage.cluster.pod_groups import GroupKey, PodGroupState, group_of
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.placements import PlacementFeasiblePlugin
from moorage.framework.plugin import PermitPlugin, PreEnqueuePlugin
from moorage.framework.status import Code, Status
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup

PERMIT_SECONDS = 300.0
TOO_FEW_PODS = "waiting for minCount pods from a gang to appear in scheduling queue"
TOO_FEW_PLACES = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling(PreEnqueuePlugin, PlacementFeasiblePlugin, PermitPlugin):
    """Keep pods of a gang back until there are enough of them."""

    name = "GangScheduling"
    judges_groups = True
    looks_up = (PodGroup,)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod of a gang waits until the group and enough of its pods exist."""
        key = group_of(pod)
        if key is None:
            return None
        group = self._group(key)
        if group is None:
            text = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
            return Status(Code.UNRESOLVABLE, (text,))
        if group.min_count is None:
            return None
        state = self._state(key)
        if isinstance(state, Status):
            return state
        return Status(Code.UNRESOLVABLE, (TOO_FEW_PODS,)) if len(state) < group.min_count else None

    def placement_feasible(self, group: PodGroup, scheduled: int, remaining: int) -> Status | None:
        """A gang needs `minCount` pods, any other group one."""
        needed = 1 if group.min_count is None else group.min_count
        progress = f"{scheduled} scheduled, {remaining} remaining"
        if scheduled + remaining < needed:
            text = f"minCount ({needed}) cannot be satisfied: {progress}"
            return Status(Code.UNSCHEDULABLE, (text,))
        if scheduled < needed:
            text = f"minCount ({needed}) is not yet satisfied: {progress}"
            return Status(Code.WAIT, (text,))
        return None

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """A pod of a gang waits until enough of its pods have a place; then all of them go on."""
        key = group_of(pod)
        if key is None:
            return None, 0
        group = self._group(key)
        if group is None:
            # An error, so that the pod is tried again: the group may be created anew.
            missing = f'podgroup.scheduling.k8s.io "{key.name}" not found'
            return Status(Code.ERROR, (f"failed to get podGroup {key}: {missing}",)), 0
        if group.min_count is None:
            return None, 0
        state = self._state(key)
        if isinstance(state, Status):
            return state, 0
        if state.scheduled_count < group.min_count:
            # They may have been rejected for reasons that this pod's place has changed.
            self.handle.members.activate_group(key)
            return Status(Code.WAIT, (TOO_FEW_PLACES,)), PERMIT_SECONDS
        for uid in state.assumed:
            self.handle.waiting.allow(uid, self.name)
        return None, 0

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Another pod of the group, the group itself, or that it needs fewer pods now."""
        return [
            on(EventResource.UNSCHEDULED_POD, ActionType.ADD, _after_pod_added),
            on(EventResource.ASSIGNED_POD, ActionType.ADD, _after_pod_added),
            on(EventResource.POD_GROUP, ActionType.ADD, _after_group_added),
            on(EventResource.POD_GROUP, ActionType.UPDATE, _after_group_updated),
        ]

    def _group(self, key: GroupKey) -> PodGroup | None:
        return self.handle.listers.of(PodGroup).get(key.name, key.namespace)

    def _state(self, key: GroupKey) -> PodGroupState | Status:
        state = self.handle.groups.get(key)
        if state is None:
            return Status(Code.ERROR, (f"pod group state not found for pod group {key}",))
        return state


def _after_pod_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    key = group_of(pod)
    return key is not None and isinstance(new, Pod) and group_of(new) == key


def _after_group_added(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    key = group_of(pod)
    return key is not None and new is not None and (new.namespace, new.name) == key


def _after_group_updated(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    key = group_of(pod)
    if not isinstance(old, PodGroup) or not isinstance(new, PodGroup):
        return True
    if key != (new.namespace, new.name) or old.min_count is None or new.min_count is None:
        return False
    return new.min_count < old.min_count
