"""VolumeBinding: which nodes are left, and what is said of the others."""

import pytest

from moorage.cluster.view import NodeView
from moorage.config import FeatureGates
from moorage.config.args import UtilizationShapePoint, VolumeBindingArgs
from moorage.framework.cluster_events import EventResource, QueueingHint
from moorage.framework.status import SKIP, Code, Status
from moorage.model.meta import ApiObject, Json
from moorage.model.storage import SELECTED_NODE
from moorage.plugins.volume_binding import VolumeBinding
from moorage.testing import cluster, make_node
from plugins.volumes.judging import ask, make
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


def answer(*objects: ApiObject, pods: tuple[str, ...] = ("x",)) -> object:
    state = cluster(NODES, [], objects)
    return ask(make(VolumeBinding, state), pod_with(*uses(*pods)), state)


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ((), 'persistentvolumeclaim "x" not found'),
        (
            (claim("x", phase="Lost", bound_to="gone"),),
            'persistentvolumeclaim "x" bound to non-existent persistentvolume "gone"',
        ),
        (
            (claim("x", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),),
            'persistentvolumeclaim "x" is being deleted',
        ),
        ((claim("x"),), "pod has unbound immediate PersistentVolumeClaims"),
        (
            (claim("x"), storage_class(mode="Immediate")),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            (claim("x", volumeName="v"), storage_class(), volume("v")),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_claims_that_rule_out_all_nodes(objects: tuple[ApiObject, ...], reason: str) -> None:
    assert answer(*objects) == Status(Code.UNRESOLVABLE, (reason,))


def test_the_claim_of_an_ephemeral_volume_is_waited_for() -> None:
    pod = pod_with({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    state = cluster(NODES)
    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-v0"'
    assert ask(make(VolumeBinding, state), pod, state) == Status(Code.UNRESOLVABLE, (text,))


def test_pods_without_claims_are_none_of_its_business() -> None:
    state = cluster(NODES)
    assert ask(make(VolumeBinding, state), pod_with({"emptyDir": {}}), state) is SKIP


def test_bound_volumes_are_used_where_they_are_reached() -> None:
    found = answer(claim("x", bound_to="v"), volume("v", nodes=["b"]))
    assert found == {"a": (UNREACHED,), "c": (UNREACHED,)}


def test_the_first_bound_claim_that_fails_is_the_one_reported() -> None:
    objects = (claim("x", bound_to="v"), volume("v", nodes=["a"]), claim("y", bound_to="gone"))
    assert answer(*objects, pods=("x", "y")) == {
        "a": (NO_VOLUME,),
        "b": (UNREACHED,),
        "c": (UNREACHED,),
    }


def test_bound_and_unbound_claims_are_both_reported() -> None:
    bound_volume = volume("v", nodes=["a"], phase="Bound")
    objects = (claim("x", bound_to="v"), bound_volume, claim("y"), storage_class())
    assert answer(*objects, pods=("x", "y")) == {
        "a": (UNMATCHED,),
        "b": (UNREACHED, UNMATCHED),
        "c": (UNREACHED, UNMATCHED),
    }


def test_two_claims_do_not_get_the_same_volume() -> None:
    objects = (
        storage_class(),
        claim("x", "5Gi"),
        claim("y", "5Gi"),
        volume("small", "5Gi", nodes=["a", "b"]),
        volume("large", "50Gi", nodes=["a"]),
    )
    found = answer(*objects, pods=("x", "y"))
    assert found == {"b": (UNMATCHED,), "c": (UNMATCHED,)}


@pytest.mark.parametrize(
    "unsuitable",
    [
        volume("v", "1Gi"),
        volume("v", phase="Bound"),
        volume("v", volumeMode="Block"),
        volume("v", accessModes=["ReadOnlyMany"]),
        volume("v", storageClassName="other"),
        volume("v", volumeAttributesClassName="gold"),
        volume("v", claim_ref={"namespace": "default", "name": "somebody"}),
    ],
    ids=["size", "phase", "mode", "access", "class", "attributes", "claimed"],
)
def test_volumes_that_do_not_suit_are_not_used(unsuitable: ApiObject) -> None:
    everywhere = dict.fromkeys(("a", "b", "c"), (UNMATCHED,))
    assert answer(storage_class(), claim("x"), unsuitable) == everywhere


def test_a_volume_that_names_the_claim_is_the_only_one_considered() -> None:
    mine = {"namespace": "default", "name": "x"}
    objects = (
        storage_class(),
        claim("x"),
        volume("mine", "50Gi", nodes=["a"], claim_ref=mine, phase="Pending"),
        volume("smaller", "5Gi"),
    )
    assert answer(*objects) == {"b": (UNMATCHED,), "c": (UNMATCHED,)}


def test_a_selected_node_leaves_no_other() -> None:
    chosen = claim("x", annotations={SELECTED_NODE: "b"})
    objects = (storage_class(provisioner=DRIVER), chosen, volume("v", nodes=["a"]))
    assert answer(*objects) == {"a": (UNMATCHED,), "c": (UNMATCHED,)}


def test_volumes_are_provisioned_where_the_class_allows_it() -> None:
    allowed: Json = {"matchLabelExpressions": [{"key": ZONE, "values": ["z2"]}]}
    found = answer(storage_class(provisioner=DRIVER, allowed=[allowed]), claim("x"))
    assert found == {"a": (UNMATCHED,), "b": (UNMATCHED,)}


def test_volumes_are_provisioned_where_there_is_room() -> None:
    objects = (
        storage_class(provisioner=DRIVER),
        csi_driver(storageCapacity=True),
        capacity("1", "1Gi", "z1"),
        capacity("2", "5Gi", "z2"),
    )
    assert answer(*objects, claim("x", "5Gi")) == {"a": (NO_ROOM,), "b": (NO_ROOM,)}
    assert answer(*objects, claim("x", None)) == {}, "no size, nothing to compare"


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


def test_scores_follow_the_share_of_storage_behind_the_gate() -> None:
    objects = [
        storage_class(),
        claim("x", "5Gi"),
        volume("1", "5Gi", nodes=["a"]),
        volume("2", "20Gi", nodes=["b"]),
    ]
    state = cluster(NODES, [], objects)
    shape = (UtilizationShapePoint(0, 0), UtilizationShapePoint(100, 10))
    gates = FeatureGates({"StorageCapacityScoring": True})
    plugin = make(VolumeBinding, state, gates, VolumeBindingArgs(shape=shape))
    nodes = NodeView(state)
    claims = plugin.pre_score(POD, nodes)
    assert plugin.score(POD, nodes, claims).tolist() == [100, 25, 0]
    assert make(VolumeBinding, state).pre_score(POD, nodes) is SKIP


@pytest.mark.parametrize(
    ("resource", "old", "new", "hint"),
    [
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim("x"), QueueingHint.QUEUE),
        (EventResource.PERSISTENT_VOLUME_CLAIM, None, claim("y"), QueueingHint.SKIP),
        (EventResource.STORAGE_CLASS, storage_class(), storage_class(), QueueingHint.SKIP),
        (EventResource.STORAGE_CLASS, None, storage_class(), QueueingHint.QUEUE),
        (EventResource.CSI_NODE, csi_node("a"), csi_node("a", 5), QueueingHint.SKIP),
        (EventResource.CSI_NODE, csi_node("a"), csi_node("a", migrated="p"), QueueingHint.QUEUE),
        (
            EventResource.CSI_STORAGE_CAPACITY,
            capacity("1", "1Gi", "z"),
            capacity("1", "2Gi", "z"),
            QueueingHint.QUEUE,
        ),
        (
            EventResource.CSI_STORAGE_CAPACITY,
            capacity("1", "2Gi", "z"),
            capacity("1", "1Gi", "z"),
            QueueingHint.SKIP,
        ),
    ],
)
def test_hints(
    resource: EventResource, old: ApiObject | None, new: ApiObject, hint: QueueingHint
) -> None:
    plugin = make(VolumeBinding, cluster())
    (event,) = [e for e in plugin.events_to_register() if e.event.resource is resource]
    assert event.hint(POD, old, new) is hint
