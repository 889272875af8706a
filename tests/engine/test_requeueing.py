"""Which event wakes which pod (parity section 6, and QC-028, QC-053, QC-109)."""

from typing import Any

import pytest

from engine.queueing import Bench, Bystander, judge, profile
from moorage.engine.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_UPDATE,
)
from moorage.framework.cluster_events import (
    ActionType,
    ClusterEvent,
    EventRegistration,
    EventResource,
    QueueingHint,
    on,
)
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.builders import make_node, make_pod

NODE_LABEL = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_TAINT)
NODE_UPDATE = ClusterEvent(EventResource.NODE, ActionType.UPDATE)
POD_LABEL = ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL)


def says(answer: bool) -> QueueingHint:
    return lambda pod, old, new: answer


QUEUE, SKIP = says(True), says(False)


def moves(bench: Bench, event: ClusterEvent, name: str = "pod") -> bool:
    bench.queue.move_all_to_active_or_backoff(event, None, make_node())
    return bench.place(name) != "unschedulable"


def registered(*registrations: EventRegistration) -> Bench:
    bench = Bench(profile(judge("Picky", *registrations)))
    bench.rejected("Picky")
    return bench


@pytest.mark.parametrize(
    ("registration", "event", "matches"),
    [
        pytest.param(on(EventResource.NODE, ActionType.ADD), NODE_ADD, True, id="the same"),
        pytest.param(on(EventResource.NODE, ActionType.ADD), NODE_DELETE, False, id="other action"),
        pytest.param(
            on(EventResource.POD, ActionType.DELETE), ASSIGNED_POD_DELETE, True, id="pods placed"
        ),
        pytest.param(
            on(EventResource.POD, ActionType.UPDATE_POD_LABEL), POD_LABEL, True, id="pods waiting"
        ),
        pytest.param(
            on(EventResource.POD, ActionType.DELETE), NODE_DELETE, False, id="other resource"
        ),
        pytest.param(
            on(EventResource.WILDCARD, ActionType.ADD), ASSIGNED_POD_ADD, True, id="any resource"
        ),
        pytest.param(
            on(EventResource.WILDCARD, ActionType.ALL), NODE_UPDATE, True, id="anything at all"
        ),
        pytest.param(
            on(EventResource.NODE, ActionType.UPDATE), NODE_LABEL, True, id="a part of it"
        ),
        pytest.param(
            on(EventResource.NODE, ActionType.UPDATE_NODE_LABEL),
            NODE_UPDATE,
            False,
            id="a plain update is no update of labels",
        ),
        pytest.param(
            on(EventResource.POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL),
            UNSCHEDULED_POD_UPDATE,
            False,
            id="the larger number does not match though bits overlap",
        ),
        pytest.param(
            on(EventResource.ASSIGNED_POD, ActionType.ADD), ASSIGNED_POD_ADD, True, id="exact kind"
        ),
    ],
)
def test_which_registration_an_event_falls_in__qc_052(
    registration: EventRegistration, event: ClusterEvent, matches: bool
) -> None:
    assert moves(registered(registration), event) is matches


def test_an_event_nobody_wants_is_neither_applied_nor_kept__qc_028_qc_064() -> None:
    bench = registered(on(EventResource.NODE, ActionType.DELETE))
    bench.pod("flying")
    bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.place() == "unschedulable"
    assert bench.ledger.in_flight == {"PodPopped": 1}


def test_an_event_another_profile_wants_is_kept_for_pods_in_flight__qc_064() -> None:
    other = profile(judge("Other", on(EventResource.NODE, ActionType.ADD)), name="other")
    bench = Bench(profile(judge("Picky")), other)
    bench.pod()
    bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.ledger.in_flight["NodeAdd"] == 1


def test_nothing_is_kept_while_nothing_is_in_flight__qc_064() -> None:
    bench = registered(on(EventResource.NODE, ActionType.ADD, SKIP))
    assert not moves(bench, NODE_ADD)
    assert not +bench.ledger.in_flight


def test_a_wildcard_wakes_every_pod__qc_053() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.rejected("Picky", name=name)
    bench.queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, None)
    assert (bench.place("a"), bench.place("b")) == ("backoff", "backoff")


@pytest.mark.parametrize(
    ("meant", "places"),
    [
        (make_pod("a"), ("backoff", "unschedulable")),
        (make_node(), ("unschedulable", "unschedulable")),
    ],
    ids=["a pod", "something else"],
)
def test_a_wildcard_with_an_object_is_meant_for_that_pod__qc_053(
    meant: ApiObject, places: tuple[str, str]
) -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.rejected("Picky", name=name)
    bench.queue.move_all_to_active_or_backoff(UNSCHEDULABLE_TIMEOUT, None, meant)
    assert (bench.place("a"), bench.place("b")) == places


def test_only_plugins_that_rejected_the_pod_are_asked__qc_054() -> None:
    bench = Bench(
        profile(
            judge("Picky", on(EventResource.NODE, ActionType.ADD, SKIP)),
            judge("Other", on(EventResource.NODE, ActionType.ADD, QUEUE)),
        )
    )
    bench.rejected("Picky")
    assert not moves(bench, NODE_ADD)
    assert bench.ledger.hints == [("Picky", "NodeAdd", "QueueSkip")]


def test_hints_come_from_the_pods_own_profile__qc_054() -> None:
    eager = profile(judge("Picky", on(EventResource.NODE, ActionType.ADD)), name="eager")
    bench = Bench(profile(judge("Picky")), eager)
    bench.rejected("Picky", name="mine")
    bench.rejected("Picky", name="theirs", spec={"schedulerName": "eager"})
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert (bench.place("mine"), bench.place("theirs")) == ("unschedulable", "backoff")


def test_the_hint_sees_the_pod_and_both_objects__qc_054() -> None:
    seen: list[tuple[Pod, ApiObject | None, ApiObject | None]] = []

    def hint(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        seen.append((pod, old, new))
        return False

    bench = registered(on(EventResource.NODE, ActionType.UPDATE_NODE_LABEL, hint))
    old, new = make_node("a"), make_node("b")
    bench.queue.move_all_to_active_or_backoff(NODE_LABEL, old, new)
    assert seen == [(make_pod(), old, new)]


def _raises(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
    raise ValueError("no idea")


def _babbles(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> Any:
    return "no idea"


@pytest.mark.parametrize("hint", [_raises, _babbles])
def test_a_hint_that_fails_counts_as_yes__qc_056(
    hint: QueueingHint, caplog: pytest.LogCaptureFixture
) -> None:
    bench = registered(on(EventResource.NODE, ActionType.ADD, hint))
    assert moves(bench, NODE_ADD)
    assert bench.ledger.hints == [("Picky", "NodeAdd", "Error")]
    assert '"QueueingHintFn returns error"' in caplog.text
    assert 'event="NodeAdd" plugin="Picky"' in caplog.text
    assert "no idea" in caplog.text


@pytest.mark.parametrize(
    ("unschedulable", "pending", "place"),
    [
        (QUEUE, QUEUE, "active"),
        (SKIP, QUEUE, "active"),
        (QUEUE, SKIP, "backoff"),
        (SKIP, SKIP, "unschedulable"),
    ],
)
@pytest.mark.parametrize("in_flight", [False, True], ids=["waiting", "in flight"])
def test_a_pending_plugin_outweighs_the_others__qc_057_qc_063(
    unschedulable: QueueingHint, pending: QueueingHint, place: str, in_flight: bool
) -> None:
    bench = Bench(
        profile(
            judge("Picky", on(EventResource.NODE, ActionType.ADD, unschedulable)),
            judge("Patient", on(EventResource.NODE, ActionType.ADD, pending)),
        )
    )
    bench.pod()
    info = bench.pop()
    if in_flight:
        bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    bench.reject(info, "Picky", pending=["Patient"])
    if not in_flight:
        bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    assert bench.place() == place


def test_no_hint_is_a_yes__qc_058() -> None:
    bench = registered(on(EventResource.NODE, ActionType.ADD))
    assert moves(bench, NODE_ADD)
    assert bench.ledger.hints == [("Picky", "NodeAdd", "Queue")]


def test_who_waits_for_nodes_does_not_wait_for_taints__qc_059() -> None:
    assert not moves(registered(on(EventResource.NODE, ActionType.ADD)), NODE_TAINT)


UNDERSTOOD = (
    EventResource.POD,
    EventResource.ASSIGNED_POD,
    EventResource.UNSCHEDULED_POD,
    EventResource.TARGET_POD,
    EventResource.NODE,
    EventResource.PERSISTENT_VOLUME,
    EventResource.PERSISTENT_VOLUME_CLAIM,
    EventResource.CSI_NODE,
    EventResource.CSI_DRIVER,
    EventResource.CSI_STORAGE_CAPACITY,
    EventResource.STORAGE_CLASS,
    EventResource.RESOURCE_CLAIM,
    EventResource.DEVICE_CLASS,
)


@pytest.mark.parametrize("resource", EventResource)
@pytest.mark.parametrize("action", [ActionType.ADD, ActionType.UPDATE, ActionType.DELETE])
def test_a_plugin_that_does_not_say_is_woken_by_nearly_everything__qc_060(
    resource: EventResource, action: ActionType
) -> None:
    bench = Bench(profile(judge("Silent", silent=True)))
    bench.rejected("Silent")
    assert moves(bench, ClusterEvent(resource, action)) is (resource in UNDERSTOOD)


def test_pod_groups_wake_it_only_where_they_exist__qc_060() -> None:
    bench = Bench(profile(judge("Silent", silent=True)), generic_workload=True)
    bench.rejected("Silent")
    assert moves(bench, ClusterEvent(EventResource.POD_GROUP, ActionType.ADD))


def test_a_plugin_that_registers_nothing_is_woken_by_no_event__qc_060() -> None:
    bench = registered()
    for resource in UNDERSTOOD:
        assert not moves(bench, ClusterEvent(resource, ActionType.ADD))


@pytest.mark.parametrize("extenders", [True, False])
def test_extenders_are_woken_like_a_plugin_that_does_not_say__qc_061(extenders: bool) -> None:
    bench = Bench(extenders=extenders)
    bench.rejected("Extender")
    assert moves(bench, NODE_DELETE) is extenders


def test_plugins_that_cannot_reject_pods_register_nothing__qc_062() -> None:
    bench = Bench(profile(Bystander()))
    bench.rejected("Bystander")
    assert not moves(bench, NODE_ADD)


def test_a_pre_check_says_which_pods_to_look_at__qc_028_qc_109_qc_112() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.POD, ActionType.DELETE))))
    for name, priority in (("below", 1), ("equal", 2), ("above", 3)):
        bench.rejected("Picky", name=name, priority=priority)
    gone = make_pod("gone", priority=2)
    bench.queue.move_all_to_active_or_backoff(
        ASSIGNED_POD_DELETE, gone, None, lambda other: other.priority <= gone.priority
    )
    assert [bench.place(name) for name in ("below", "equal", "above")] == [
        "backoff",
        "backoff",
        "unschedulable",
    ]


def test_a_pod_can_be_left_out_of_its_own_event__qc_129() -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.POD, ActionType.DELETE))))
    bench.rejected("Picky", name="failed")
    bench.rejected("Picky", name="other")
    failed = make_pod("failed")
    bench.queue.move_all_to_active_or_backoff(
        ASSIGNED_POD_DELETE, failed, None, lambda other: other.uid != failed.uid
    )
    assert (bench.place("failed"), bench.place("other")) == ("unschedulable", "backoff")


def test_a_profile_nobody_knows_is_no_reason_to_lose_a_pod(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(profile(judge("Picky", on(EventResource.NODE, ActionType.ADD))))
    bench.pod(spec={"schedulerName": "gone"})
    info = bench.pop()
    bench.queue.move_all_to_active_or_backoff(NODE_ADD, None, make_node())
    bench.reject(info, "Picky")
    assert bench.place() == "backoff"
    assert '"No QueueingHintMap is registered for this profile"' in caplog.text
    assert 'profile="gone"' in caplog.text
