"""SchedulingGates: a pod with gates does not enter the queue."""

from collections.abc import Sequence

from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    on,
)
from moorage.framework.plugin import PreEnqueuePlugin
from moorage.framework.status import Code, Status
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
        gone = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [on(EventResource.TARGET_POD, gone)]
