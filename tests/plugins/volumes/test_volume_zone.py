"""VolumeZone: labels of bound volumes against labels of nodes."""

import pytest

from moorage.framework.cluster_events import EventResource, QueueingHint
from moorage.framework.status import SKIP, Code, Status
from moorage.model.meta import ApiObject
from moorage.plugins.volume_zone import VolumeZone
from moorage.testing import cluster, make_node
from plugins.volumes.judging import ask, make
from plugins.volumes.storage_objects import claim, pod_with, storage_class, uses, volume

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OTHER_ZONE = ("node(s) had no available volume zone",)
NODES = (
    make_node("north", labels={ZONE: "n"}),
    make_node("south", labels={ZONE: "s"}),
    make_node("old", labels={OLD_ZONE: "n"}),
    make_node("bare"),
)
POD = pod_with(*uses("c"))


def test_nodes_in_other_zones_are_refused_and_nodes_without_zones_are_not() -> None:
    state = cluster(NODES, [], [claim("c", bound_to="v"), volume("v", labels={ZONE: "n"})])
    answer = ask(make(VolumeZone, state), POD, state)
    assert answer == {"south": OTHER_ZONE, "old": OTHER_ZONE}


def test_an_old_label_also_matches_the_new_one_of_a_node() -> None:
    state = cluster(NODES, [], [claim("c", bound_to="v"), volume("v", labels={OLD_ZONE: "n__x"})])
    assert ask(make(VolumeZone, state), POD, state) == {"south": OTHER_ZONE}


def test_a_label_with_an_empty_part_says_nothing() -> None:
    state = cluster(NODES, [], [claim("c", bound_to="v"), volume("v", labels={ZONE: "n__"})])
    assert ask(make(VolumeZone, state), POD, state) is SKIP


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ((), 'persistentvolumeclaim "c" not found'),
        (
            (claim("c", storageClassName=""),),
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ((claim("c"),), 'storageclass.storage.k8s.io "slow" not found'),
        ((claim("c"), storage_class(mode="Immediate")), "PersistentVolume had no name"),
        ((claim("c", bound_to="gone"),), 'persistentvolume "gone" not found'),
    ],
)
def test_what_cannot_be_said_yet_rules_out_all_nodes(
    objects: tuple[ApiObject, ...], reason: str
) -> None:
    state = cluster(NODES, [], objects)
    answer = ask(make(VolumeZone, state), POD, state)
    assert answer == Status(Code.UNRESOLVABLE, (reason,))


def test_claims_that_wait_for_their_pod_are_left_out() -> None:
    state = cluster(NODES, [], [claim("c"), storage_class()])
    assert ask(make(VolumeZone, state), POD, state) is SKIP


@pytest.mark.parametrize(("zone", "hint"), [("n", QueueingHint.SKIP), ("s", QueueingHint.QUEUE)])
def test_a_volume_that_moves_to_another_zone_is_a_hint(zone: str, hint: QueueingHint) -> None:
    plugin = make(VolumeZone, cluster())
    (event,) = [
        e
        for e in plugin.events_to_register()
        if e.event.resource is EventResource.PERSISTENT_VOLUME
    ]
    before, after = volume("v", labels={ZONE: "n"}), volume("v", labels={ZONE: zone})
    assert event.hint(POD, before, after) is hint
    assert event.hint(POD, None, after) is QueueingHint.QUEUE
