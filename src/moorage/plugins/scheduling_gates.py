"""SchedulingGates: a pod with gates does not enter the queue."""

from collections.abc import Sequence

from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    QueueingHint,
    on,
)
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.status import Code, Status
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod


class SchedulingGates(PreEnqueuePlugin):
    """Keep pods out until all of their scheduling gates are gone."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Name the gates that are left."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Status(Code.UNRESOLVABLE, (f"waiting for scheduling gates: [{names}]",))

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Only the pod itself losing its gates helps."""
        return [
            on(
                EventResource.POD,
                ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                self._after_gates_eliminated,
            )
        ]

    def _after_gates_eliminated(
        self, pod: Pod, old: ApiObject | None, new: ApiObject | None
    ) -> QueueingHint:
        del old
        own = isinstance(new, Pod) and new.uid == pod.uid
        return QueueingHint.QUEUE if own else QueueingHint.SKIP
