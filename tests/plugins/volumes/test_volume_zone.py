"""VolumeZone: labels of bound volumes against labels of nodes."""

import pytest

from moorage.framework.cluster_events import EventResource
from moorage.framework.status import SKIP
from moorage.plugins.volume_zone import VolumeZone
from moorage.testing import cluster, make_node
from plugins.tables import FITS, table
from plugins.volumes.judging import VolumeCase, check, make
from plugins.volumes.storage_objects import claim, pod_with, storage_class, uses, volume

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OTHER_ZONE = "node(s) had no available volume zone"
NODES = (
    make_node("north", labels={ZONE: "n"}),
    make_node("south", labels={ZONE: "s"}),
    make_node("old", labels={OLD_ZONE: "n"}),
    make_node("bare"),
)
POD = pod_with(*uses("c"))
BOUND = claim("c", bound_to="v")


@table(
    VolumeCase(
        "nodes of other zones are refused, nodes without any are not",
        POD,
        [BOUND, volume("v", labels={ZONE: "n"})],
        {"north": FITS, "south": OTHER_ZONE, "old": OTHER_ZONE, "bare": FITS},
    ),
    VolumeCase(
        "an old label of one of several zones matches the new label of a node",
        POD,
        [BOUND, volume("v", labels={OLD_ZONE: "n__x"})],
        {"north": FITS, "south": OTHER_ZONE, "old": FITS, "bare": FITS},
    ),
    VolumeCase(
        "a label with an empty part says nothing",
        POD,
        [BOUND, volume("v", labels={ZONE: "n__"})],
        SKIP,
    ),
    VolumeCase("a claim that waits for its pod", POD, [claim("c"), storage_class()], SKIP),
    VolumeCase("no claim", POD, [], 'persistentvolumeclaim "c" not found'),
    VolumeCase(
        "neither volume nor class",
        POD,
        [claim("c", storageClassName="")],
        "PersistentVolumeClaim had no pv name and storageClass name",
    ),
    VolumeCase("no class", POD, [claim("c")], 'storageclass.storage.k8s.io "slow" not found'),
    VolumeCase(
        "a class that does not wait",
        POD,
        [claim("c"), storage_class(mode="Immediate")],
        "PersistentVolume had no name",
    ),
    VolumeCase(
        "no volume", POD, [claim("c", bound_to="gone")], 'persistentvolume "gone" not found'
    ),
)
def test_nodes_are_refused_for_the_zones_of_bound_volumes(case: VolumeCase) -> None:
    check(VolumeZone, NODES, case)


@pytest.mark.parametrize(("zone", "hint"), [("n", False), ("s", True)])
def test_a_volume_that_moves_to_another_zone_is_a_hint(zone: str, hint: bool) -> None:
    plugin = make(VolumeZone, cluster())
    (event,) = [
        e
        for e in plugin.events_to_register()
        if e.event.resource is EventResource.PERSISTENT_VOLUME
    ]
    before, after = volume("v", labels={ZONE: "n"}), volume("v", labels={ZONE: zone})
    assert event.hint(POD, before, after) is hint
    assert event.hint(POD, None, after) is True
