"""From two versions of an object to events (parity section 7)."""

from typing import Any

import msgspec
import pytest

from moorage.engine.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    is_wildcard,
    label,
    node_update_events,
    nominated_node_changed,
    pod_update_events,
)
from moorage.framework.cluster_events import ActionType, ClusterEvent, EventResource
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing.builders import make_node, make_pod

OLD_NODE = make_node(
    labels={"a": "1"}, taints=["dry:NoSchedule"], status={"conditions": [], "declaredFeatures": []}
)


def changed(**fields: Any) -> Node:
    return make_node(**{"labels": {"a": "1"}, "taints": ["dry:NoSchedule"], **fields})


def annotated(node: Node) -> Node:
    metadata = msgspec.structs.replace(node.metadata, annotations={"a": "b"})
    return msgspec.structs.replace(node, metadata=metadata)


@pytest.mark.parametrize(
    ("action", "number"),
    [
        (ActionType.ADD, 1),
        (ActionType.DELETE, 2),
        (ActionType.UPDATE_NODE_ALLOCATABLE, 4),
        (ActionType.UPDATE_NODE_LABEL, 8),
        (ActionType.UPDATE_NODE_TAINT, 16),
        (ActionType.UPDATE_NODE_CONDITION, 32),
        (ActionType.UPDATE_NODE_ANNOTATION, 64),
        (ActionType.UPDATE_NODE_DECLARED_FEATURE, 128),
        (ActionType.UPDATE_NODE_PREEMPTION_POLICY, 256),
        (ActionType.UPDATE_POD_LABEL, 512),
        (ActionType.UPDATE_POD_SCALE_DOWN, 1024),
        (ActionType.UPDATE_POD_SCALE_UP, 2048),
        (ActionType.UPDATE_POD_TOLERATION, 4096),
        (ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, 8192),
        (ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, 16384),
        (ActionType.UPDATE, 32764),
        (ActionType.ALL, 32767),
    ],
)
def test_the_numbers_of_actions_are_upstreams__qc_065(action: ActionType, number: int) -> None:
    assert action == number


@pytest.mark.parametrize(
    ("event", "name"),
    [
        (NODE_ADD, "NodeAdd"),
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (UNSCHEDULED_POD_ADD, "UnscheduledPodAdd"),
        (UNSCHEDULED_POD_UPDATE, "UnscheduledPodUpdate"),
        (
            ClusterEvent(EventResource.UNSCHEDULED_POD, ActionType.UPDATE_POD_LABEL),
            "UnscheduledPodUpdatePodLabel",
        ),
        (
            ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE),
            "NodeUpdateNodeDeclaredFeature",
        ),
        (ClusterEvent(EventResource.CSI_NODE, ActionType.ADD), "storage.k8s.io/CSINodeAdd"),
        (ClusterEvent(EventResource.NODE, ActionType.ALL), "NodeAll"),
        (ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.DELETE), "Node"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_events_go_by_upstreams_names__qc_071_qc_072(event: ClusterEvent, name: str) -> None:
    assert label(event) == name


def test_only_the_forced_moves_are_wildcards__qc_053() -> None:
    assert is_wildcard(UNSCHEDULABLE_TIMEOUT)
    assert is_wildcard(FORCE_ACTIVATE)
    assert not is_wildcard(NODE_ADD)
    assert not is_wildcard(ClusterEvent(EventResource.WILDCARD, ActionType.ADD))


@pytest.mark.parametrize(
    ("new", "actions"),
    [
        pytest.param(changed(), [], id="nothing"),
        pytest.param(
            changed(cpu="8"), [ActionType.UPDATE_NODE_ALLOCATABLE], id="allocatable differs"
        ),
        pytest.param(changed(cpu="4000m"), [], id="the same amount in other words"),
        pytest.param(changed(labels={"a": "2"}), [ActionType.UPDATE_NODE_LABEL], id="labels"),
        pytest.param(changed(taints=[]), [ActionType.UPDATE_NODE_TAINT], id="taints"),
        pytest.param(changed(unschedulable=True), [], id="being closed helps nobody"),
        pytest.param(annotated(OLD_NODE), [ActionType.UPDATE_NODE_ANNOTATION], id="annotations"),
        pytest.param(
            changed(status={"conditions": [{"type": "Ready", "status": "True"}]}),
            [ActionType.UPDATE_NODE_CONDITION],
            id="a condition",
        ),
        pytest.param(
            changed(status={"declaredFeatures": ["Sails"]}),
            [ActionType.UPDATE_NODE_DECLARED_FEATURE],
            id="declared features",
        ),
        pytest.param(
            changed(spec={"podPreemptionPolicy": {"disableResizePreemption": ["harbour"]}}),
            [ActionType.UPDATE_NODE_PREEMPTION_POLICY],
            id="who may be evicted",
        ),
        pytest.param(changed(images={"rum": 5}), [], id="images are of no concern"),
        pytest.param(
            changed(cpu="8", labels={"a": "2"}, taints=[]),
            [
                ActionType.UPDATE_NODE_ALLOCATABLE,
                ActionType.UPDATE_NODE_LABEL,
                ActionType.UPDATE_NODE_TAINT,
            ],
            id="several at once",
        ),
    ],
)
def test_what_an_update_of_a_node_amounts_to__qc_068(new: Node, actions: list[ActionType]) -> None:
    assert node_update_events(OLD_NODE, new, declared_features=True) == [
        ClusterEvent(EventResource.NODE, action) for action in actions
    ]


def test_a_node_that_opens_counts_as_a_change_of_taints__qc_068() -> None:
    closed = make_node(unschedulable=True, taints=["shut:NoSchedule"])
    assert [
        event.action for event in node_update_events(closed, make_node(), declared_features=True)
    ] == [
        ActionType.UPDATE_NODE_TAINT,
        ActionType.UPDATE_NODE_TAINT,
    ]


def test_a_heartbeat_is_no_event__qc_068() -> None:
    def beat(time: str) -> Node:
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": time, "reason": time}
        return make_node(status={"conditions": [condition]})

    assert (
        node_update_events(
            beat("2026-01-01T00:00:00Z"), beat("2026-01-01T00:05:00Z"), declared_features=True
        )
        == []
    )


def test_declared_features_count_only_with_their_gate_on__qc_068() -> None:
    new = changed(status={"declaredFeatures": ["Sails"]})
    assert node_update_events(OLD_NODE, new, declared_features=False) == []


OLD_POD = make_pod(cpu="2", memory="1Gi", labels={"a": "1"})


def repod(**fields: Any) -> Pod:
    return make_pod(**{"cpu": "2", "memory": "1Gi", "labels": {"a": "1"}, **fields})


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        pytest.param(OLD_POD, OLD_POD, [ActionType.UPDATE], id="nothing with a name"),
        pytest.param(OLD_POD, repod(labels={"a": "2"}), [ActionType.UPDATE_POD_LABEL], id="labels"),
        pytest.param(OLD_POD, repod(cpu="1"), [ActionType.UPDATE_POD_SCALE_DOWN], id="less cpu"),
        pytest.param(OLD_POD, repod(cpu="3"), [ActionType.UPDATE_POD_SCALE_UP], id="more cpu"),
        pytest.param(
            OLD_POD, repod(memory=None), [ActionType.UPDATE_POD_SCALE_DOWN], id="memory dropped"
        ),
        pytest.param(
            OLD_POD,
            repod(cpu="3", memory="512Mi"),
            [ActionType.UPDATE_POD_SCALE_DOWN, ActionType.UPDATE_POD_SCALE_UP],
            id="more of one, less of another",
        ),
        pytest.param(
            repod(spec={"schedulingGates": [{"name": "g"}]}),
            OLD_POD,
            [ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED],
            id="the last gate",
        ),
        pytest.param(
            repod(spec={"schedulingGates": [{"name": "g"}, {"name": "h"}]}),
            repod(spec={"schedulingGates": [{"name": "h"}]}),
            [ActionType.UPDATE],
            id="a gate, but not the last",
        ),
        pytest.param(
            OLD_POD,
            repod(spec={"tolerations": [{"operator": "Exists"}]}),
            [ActionType.UPDATE_POD_TOLERATION],
            id="one more toleration",
        ),
        pytest.param(
            repod(spec={"tolerations": [{"key": "a", "operator": "Exists"}]}),
            repod(spec={"tolerations": [{"key": "b", "operator": "Exists"}]}),
            [ActionType.UPDATE],
            id="as many tolerations",
        ),
        pytest.param(
            OLD_POD,
            repod(status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "d"}]}),
            [ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
            id="a generated claim",
        ),
        pytest.param(
            OLD_POD,
            repod(status={"extendedResourceClaimStatus": {"resourceClaimName": "d"}}),
            [ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
            id="a claim behind an extended resource",
        ),
        pytest.param(
            OLD_POD,
            repod(labels={}, cpu="1", spec={"tolerations": [{"operator": "Exists"}]}),
            [
                ActionType.UPDATE_POD_LABEL,
                ActionType.UPDATE_POD_SCALE_DOWN,
                ActionType.UPDATE_POD_TOLERATION,
            ],
            id="several at once",
        ),
    ],
)
def test_what_an_update_of_a_pod_amounts_to__qc_069(
    old: Pod, new: Pod, actions: list[ActionType]
) -> None:
    assert [event.action for event in pod_update_events(old, new)] == actions


def test_a_resize_counts_from_when_the_kubelet_has_done_it__qc_069() -> None:
    def running(wanted: str, given: str) -> Pod:
        resources = {"requests": {"cpu": given}}
        status = {"containerStatuses": [{"name": "main", "resources": resources}]}
        return make_pod(cpu=wanted, node_name="quay", status=status)

    before, asked, done = running("2", "2"), running("1", "2"), running("1", "1")
    assert [event.action for event in pod_update_events(before, asked)] == [ActionType.UPDATE]
    assert [event.action for event in pod_update_events(asked, done)] == [
        ActionType.UPDATE_POD_SCALE_DOWN
    ]


@pytest.mark.parametrize(
    ("node_name", "resource"),
    [("", EventResource.UNSCHEDULED_POD), ("quay", EventResource.ASSIGNED_POD)],
)
def test_the_node_of_the_new_version_says_which_kind_of_pod__qc_070(
    node_name: str, resource: EventResource
) -> None:
    (event,) = pod_update_events(make_pod(), make_pod(node_name=node_name))
    assert event == ClusterEvent(resource, ActionType.UPDATE)


@pytest.mark.parametrize(
    ("node_name", "resource"),
    [("", EventResource.TARGET_POD), ("quay", EventResource.ASSIGNED_POD)],
)
def test_to_the_pod_itself_a_change_is_another_event__qc_070(
    node_name: str, resource: EventResource
) -> None:
    (event,) = pod_update_events(make_pod(), make_pod(node_name=node_name), target=True)
    assert event == ClusterEvent(resource, ActionType.UPDATE)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [("", "a", False), ("a", "a", False), ("a", "b", True), ("a", "", True), ("", "", False)],
)
def test_a_nomination_given_up_frees_its_node__qc_109(
    before: str, after: str, changes: bool
) -> None:
    old = make_pod(status={"nominatedNodeName": before})
    new = make_pod(status={"nominatedNodeName": after})
    assert nominated_node_changed(old, new) is changes


def test_events_of_pods_are_told_apart__qc_066() -> None:
    assert ASSIGNED_POD_ADD != UNSCHEDULED_POD_ADD
    assert UNSCHEDULABLE_TIMEOUT != FORCE_ACTIVATE
