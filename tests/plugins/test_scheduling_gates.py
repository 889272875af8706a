"""SchedulingGates: a pod with gates does not enter the queue."""

import msgspec
import pytest

from framework.building import make_plugin
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.framework.status import Code, Status
from moorage.model.pod import (
    PodSchedulingGate,
)
from moorage.model.taints import Toleration
from moorage.plugins.scheduling_gates import SchedulingGates
from plugins.tables import HintCase, check_hint, hints, registered
from reference.objects import (
    make_pod,
)

POD, NODE, A = EventResource.POD, EventResource.NODE, ActionType


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
    assert registered(SchedulingGates) == [(POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, True)]


POOR = make_pod("rejected")

STRANGER = make_pod("stranger", tolerations=[Toleration(operator="Exists")])


@hints(
    ("it lost its gates", POOR, POOR, POOR, True),
    ("another pod lost its gates", POOR, STRANGER, STRANGER, False),
)
def test_scheduling_gates_wait_for_the_pod_itself(case: HintCase) -> None:
    check_hint(make_plugin(SchedulingGates), POD, case)
