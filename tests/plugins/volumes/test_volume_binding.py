"""VolumeBinding: which nodes are left, and what is said of the others."""

import numpy as np
import pytest

from moorage.cluster.view import NodeView
from moorage.config import FeatureGates
from moorage.config.args import UtilizationShapePoint, VolumeBindingArgs
from moorage.framework.cluster_events import EventResource
from moorage.framework.status import SKIP
from moorage.model.meta import ApiObject, Json
from moorage.model.storage import SELECTED_NODE
from moorage.plugins.volume_binding import VolumeBinding
from moorage.testing import cluster, make_node
from plugins.tables import FITS, table
from plugins.volumes.judging import VolumeCase, ask, check, make
from plugins.volumes.storage_objects import (
    DRIVER,
    capacity,
    claim,
    csi_driver,
    csi_node,
    on_nodes,
    pod_with,
    storage_class,
    uses,
    volume,
)

ZONE = "topology.kubernetes.io/zone"
UNREACHED = "node(s) didn't match PersistentVolume's node affinity"
UNMATCHED = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NODES = (make_node("a", zone="z1"), make_node("b", zone="z1"), make_node("c", zone="z2"))
POD = pod_with(*uses("x"))
SCORING = VolumeBindingArgs(shape=(UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10)))


BOTH = pod_with(*uses("x", "y"))
IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
NOWHERE: dict[str, str | None] = dict.fromkeys(("a", "b", "c"), UNMATCHED)
ROOM = (
    storage_class(provisioner=DRIVER),
    csi_driver(storageCapacity=True),
    capacity("1", "1Gi", "z1"),
    capacity("2", "5Gi", "z2"),
)
ONLY_Z2: Json = {"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}
MINE = {"namespace": "default", "name": "x"}


@table(
    # Claims that rule out all nodes, or none.
    VolumeCase("no claims", pod_with({"emptyDir": {}}), [], SKIP),
    VolumeCase("a missing claim", POD, [], 'persistentvolumeclaim "x" not found'),
    VolumeCase(
        "a lost claim",
        POD,
        [claim("x", phase="Lost", bound_to="gone")],
        'persistentvolumeclaim "x" bound to non-existent persistentvolume "gone"',
    ),
    VolumeCase(
        "a claim that is being deleted",
        POD,
        [claim("x", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
        'persistentvolumeclaim "x" is being deleted',
    ),
    VolumeCase("a missing class", POD, [claim("x")], IMMEDIATE),
    VolumeCase(
        "a class that does not wait", POD, [claim("x"), storage_class(mode="Immediate")], IMMEDIATE
    ),
    VolumeCase(
        "a volume that is chosen and not bound yet",
        POD,
        [claim("x", volumeName="v"), storage_class(), volume("v")],
        IMMEDIATE,
    ),
    VolumeCase(
        "the claim of an ephemeral volume is yet to come",
        pod_with({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-v0"',
    ),
    # Bound volumes.
    VolumeCase(
        "a bound volume is used where it is reached",
        POD,
        [claim("x", bound_to="v"), volume("v", nodes=["b"])],
        {"a": UNREACHED, "b": FITS, "c": UNREACHED},
    ),
    VolumeCase(
        "of bound claims the first that fails is reported",
        BOTH,
        [claim("x", bound_to="v"), volume("v", nodes=["a"]), claim("y", bound_to="gone")],
        {"a": NO_VOLUME, "b": UNREACHED, "c": UNREACHED},
    ),
    VolumeCase(
        "bound and unbound claims are both reported",
        BOTH,
        [
            *(claim("x", bound_to="v"), volume("v", nodes=["a"], phase="Bound")),
            *(claim("y"), storage_class()),
        ],
        {"a": UNMATCHED, "b": f"{UNREACHED}, {UNMATCHED}", "c": f"{UNREACHED}, {UNMATCHED}"},
    ),
    # Volumes to be bound.
    VolumeCase(
        "two claims do not get the same volume",
        BOTH,
        [
            *(storage_class(), claim("x", "5Gi"), claim("y", "5Gi")),
            *(volume("small", "5Gi", nodes=["a", "b"]), volume("large", "50Gi", nodes=["a"])),
        ],
        {"a": FITS, "b": UNMATCHED, "c": UNMATCHED},
    ),
    *(
        VolumeCase(f"a volume of {what}", POD, [storage_class(), claim("x"), unsuitable], NOWHERE)
        for what, unsuitable in {
            "too small a size": volume("v", "1Gi"),
            "another phase": volume("v", phase="Bound"),
            "another mode": volume("v", volumeMode="Block"),
            "other access modes": volume("v", accessModes=["ReadOnlyMany"]),
            "another class": volume("v", storageClassName="other"),
            "other attributes": volume("v", volumeAttributesClassName="gold"),
            "somebody else": volume("v", claim_ref={"namespace": "default", "name": "somebody"}),
        }.items()
    ),
    VolumeCase(
        "a volume that names the claim is the only one considered",
        POD,
        [
            *(storage_class(), claim("x"), volume("smaller", "5Gi")),
            volume("mine", "50Gi", nodes=["a"], claim_ref=MINE, phase="Pending"),
        ],
        {"a": FITS, "b": UNMATCHED, "c": UNMATCHED},
    ),
    # Volumes to be provisioned.
    VolumeCase(
        "a selected node leaves no other",
        POD,
        [
            storage_class(provisioner=DRIVER),
            claim("x", annotations={SELECTED_NODE: "b"}),
            volume("v", nodes=["a"]),
        ],
        {"a": UNMATCHED, "b": FITS, "c": UNMATCHED},
    ),
    VolumeCase(
        "provisioned where the class allows it",
        POD,
        [storage_class(provisioner=DRIVER, allowed=[ONLY_Z2]), claim("x")],
        {"a": UNMATCHED, "b": UNMATCHED, "c": FITS},
    ),
    VolumeCase(
        "provisioned where there is room",
        POD,
        [*ROOM, claim("x", "5Gi")],
        {"a": NO_ROOM, "b": NO_ROOM, "c": FITS},
    ),
    VolumeCase(
        "without a size there is nothing to compare",
        POD,
        [*ROOM, claim("x", None)],
        {"a": FITS, "b": FITS, "c": FITS},
    ),
)
def test_nodes_are_refused_that_the_volumes_do_not_reach(case: VolumeCase) -> None:
    check(VolumeBinding, NODES, case)


def answer(*objects: ApiObject) -> object:
    state = cluster(NODES, [], objects)
    return ask(make(VolumeBinding, state), POD, state)


def test_volumes_of_a_migrated_plugin_are_reached_by_the_drivers_zones() -> None:
    """The driver's label decides on nodes that migrated, the in-tree one on the others."""
    nodes = (
        make_node("migrated", zone="z1", labels={"topology.ebs.csi.aws.com/zone": "z2"}),
        make_node("still", zone="z1"),
    )
    disk = volume(
        "v", awsElasticBlockStore={"volumeID": "vol-1"}, nodeAffinity=on_nodes("z1", key=ZONE)
    )
    objects = [
        claim("x", bound_to="v"),
        disk,
        csi_node("migrated", migrated="kubernetes.io/aws-ebs"),
        csi_node("still"),
    ]
    state = cluster(nodes, [], objects)
    assert ask(make(VolumeBinding, state), POD, state) == {"migrated": (UNREACHED,)}


def test_a_volume_that_cannot_be_translated_is_an_error_where_it_would_have_to_be() -> None:
    disk = volume("v", azureDisk={"diskName": "d", "diskURI": "u", "kind": "Dedicated"})
    objects = (claim("x", bound_to="v"), disk, csi_node("a", migrated="kubernetes.io/azure-disk"))
    text = "could not translate pv: kind(Dedicated) is not supported in csi migration"
    assert answer(*objects) == {"a": (text,)}


def test_scores_follow_the_share_of_storage_unless_the_gate_is_off() -> None:
    objects = [
        storage_class(),
        claim("x", "5Gi"),
        volume("1", "5Gi", nodes=["a"]),
        volume("2", "20Gi", nodes=["b"]),
    ]
    state = cluster(NODES, [], objects)
    plugin = make(VolumeBinding, state, args=SCORING)
    nodes = NodeView(state)
    claims = plugin.pre_score(POD, nodes)
    assert plugin.score(POD, nodes, claims).tolist() == [100, 25, 0]
    gates = FeatureGates({"StorageCapacityScoring": False})
    assert make(VolumeBinding, state, gates).pre_score(POD, nodes) is SKIP


def test_classes_count_alike_and_existing_volumes_before_those_on_demand() -> None:
    fast, driver = storage_class("fast"), csi_driver(storageCapacity=True)
    on_demand = storage_class("made", provisioner=DRIVER)
    objects = [
        *(storage_class(), fast, on_demand, driver),
        claim("x", "5Gi"),
        claim("y", "5Gi", storageClassName="fast"),
        claim("z", "6Gi", storageClassName="made"),
        volume("slow-a", "10Gi", nodes=["a"]),
        volume("fast-a", "20Gi", nodes=["a"], storageClassName="fast"),
        volume("slow-b", "5Gi", nodes=["b"]),
        volume("fast-b", "8Gi", nodes=["b"], storageClassName="fast"),
    ]
    state = cluster(NODES, [], objects)
    plugin, nodes = make(VolumeBinding, state, args=SCORING), NodeView(state)
    both = pod_with(*uses("x", "y"))
    # a: (50 + 25) / 2, rounded up; b: (100 + 62) / 2; c: no volumes.
    assert plugin.score(both, nodes, plugin.pre_score(both, nodes)).tolist() == [38, 81, 0]


def test_claims_of_a_class_draw_on_the_same_room() -> None:
    objects = [
        storage_class(provisioner=DRIVER),
        csi_driver(storageCapacity=True),
        *(claim("x", "5Gi"), claim("y", "15Gi")),
        *(capacity("1", "40Gi", "z1"), capacity("2", "16Gi", "z2")),
    ]
    state = cluster(NODES, [], objects)
    plugin, nodes = make(VolumeBinding, state, args=SCORING), NodeView(state)
    both = pod_with(*uses("x", "y"))
    # a and b: 20Gi of 40Gi; c: 16Gi are enough for each claim, but not for both.
    assert plugin.score(both, nodes, plugin.pre_score(both, nodes)).tolist() == [50, 50, 100]


def test_what_the_filter_found_is_scored_again_on_any_of_its_nodes() -> None:
    objects = [storage_class(), claim("x", "5Gi")]
    objects += [volume(f"on-{node.name}", "20Gi", nodes=[node.name]) for node in NODES]
    state = cluster(NODES, [], objects)
    plugin, nodes = make(VolumeBinding, state, args=SCORING), NodeView(state)
    before = plugin.pre_filter(POD, nodes)
    asked = plugin.score(POD, nodes, before.state).tolist()
    plugin.filter(POD, nodes, before.state)
    assert plugin.score(POD, nodes, before.state).tolist() == asked
    some = nodes.take(np.array([1]))
    assert plugin.score(POD, some, before.state).tolist() == asked[1:2]


def test_pods_without_claims_to_place_are_scored_at_no_cost() -> None:
    bound = [claim("x", bound_to="1"), volume("1", "5Gi", nodes=["a"])]
    state = cluster(NODES, [], bound)
    plugin, nodes = make(VolumeBinding, state), NodeView(state)
    for pod in (POD, pod_with({"emptyDir": {}})):
        assert plugin.score(pod, nodes, plugin.pre_score(pod, nodes)) is SKIP


@pytest.mark.parametrize(
    ("resource", "old", "new", "hint"),
    [
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim("x"), True),
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim("y"), False),
        (EventResource.STORAGE_CLASS, storage_class(), storage_class(), False),
        (EventResource.STORAGE_CLASS, None, storage_class(), True),
        (EventResource.CSI_NODE, csi_node("a"), csi_node("a", 5), False),
        (EventResource.CSI_NODE, csi_node("a"), csi_node("a", migrated="p"), True),
        (
            EventResource.CSI_STORAGE_CAPACITY,
            capacity("1", "1Gi", "z"),
            capacity("1", "2Gi", "z"),
            True,
        ),
        (
            EventResource.CSI_STORAGE_CAPACITY,
            capacity("1", "2Gi", "z"),
            capacity("1", "1Gi", "z"),
            False,
        ),
    ],
)
def test_hints(resource: EventResource, old: ApiObject | None, new: ApiObject, hint: bool) -> None:
    plugin = make(VolumeBinding, cluster())
    (event,) = [e for e in plugin.events_to_register() if e.event.resource is resource]
    assert event.hint(POD, old, new) is hint
