"""SchedulingGates: a pod with gates does not enter the queue."""

import msgspec
import pytest

from framework.building import make_plugin
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.status import Code, Status
from moorage.model.pod import PodSchedulingGate
from moorage.plugins.scheduling_gates import SchedulingGates
from plugins.tables import registered
from reference.objects import make_pod

TARGET, A = EventResource.TARGET_POD, ActionType


@pytest.mark.parametrize(
    ("gates", "told"),
    [
        ([], None),
        (["quota"], "waiting for scheduling gates: [quota]"),
        (["quota", "example.com/ready"], "waiting for scheduling gates: [quota example.com/ready]"),
    ],
    ids=["no gates", "one gate", "two gates"],
)
def test_pods_with_gates_are_kept_out(gates: list[str], told: str | None) -> None:
    pod = make_pod("p")
    named = tuple(PodSchedulingGate(name=name) for name in gates)
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=named)
    status = make_plugin(SchedulingGates).pre_enqueue(msgspec.structs.replace(pod, spec=spec))
    assert status == (None if told is None else Status(Code.UNRESOLVABLE, (told,)))


def test_it_registers_the_events_that_upstreams_does() -> None:
    gone = A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    assert registered(SchedulingGates) == [(TARGET, gone, False)]
