"""Which cluster events a registration matches."""

import pytest

from moorage.framework.cluster_events import (
    ActionType,
    ClusterEvent,
    EventResource,
)

POD, NODE = EventResource.POD, EventResource.NODE

A = ActionType


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        ((POD, A.DELETE), (EventResource.ASSIGNED_POD, A.DELETE), True),
        ((POD, A.DELETE), (EventResource.UNSCHEDULED_POD, A.DELETE), True),
        ((POD, A.UPDATE), (EventResource.TARGET_POD, A.UPDATE), True),
        ((EventResource.TARGET_POD, A.UPDATE), (EventResource.UNSCHEDULED_POD, A.UPDATE), False),
        ((POD, A.DELETE), (POD, A.ADD), False),
        ((NODE, A.ADD), (POD, A.ADD), False),
        ((NODE, A.ADD | A.UPDATE_NODE_TAINT), (NODE, A.UPDATE_NODE_TAINT), True),
        ((EventResource.WILDCARD, A.ALL), (EventResource.CSI_NODE, A.UPDATE), True),
        ((NODE, A.ADD), (NODE, A.ADD | A.DELETE), False),
        ((EventResource.ASSIGNED_POD, A.ADD), (POD, A.ADD), False),
    ],
    ids=[
        "a pod on a node is a pod",
        "a pending pod is a pod",
        "the pod itself is a pod",
        "another pod is not the pod itself",
        "another action",
        "another kind",
        "one of several actions",
        "the wildcard",
        "an action of a larger number is not matched",
        "a pod is not always on a node",
    ],
)
def test_a_registration_matches_events_by_kind_and_action(
    registered: tuple[EventResource, ActionType],
    incoming: tuple[EventResource, ActionType],
    matches: bool,
) -> None:
    assert ClusterEvent(*registered).matches(ClusterEvent(*incoming)) is matches
