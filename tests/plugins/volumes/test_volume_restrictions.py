"""VolumeRestrictions: disks that pods name themselves, and claims for one pod."""

import pytest

from framework.building import make_state, only
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import EventResource
from moorage.framework.status import SKIP, Code
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.plugins.volume_restrictions import ClaimsInUse, VolumeRestrictions
from moorage.testing import cluster, make_node
from plugins.tables import FITS, asked, table
from plugins.volumes.judging import VolumeCase, ask, check, make
from plugins.volumes.storage_objects import claim, pod_with, uses

NO_DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
NODES = (make_node("a"), make_node("b"))
ALONE = claim("alone", accessModes=["ReadWriteOncePod"])


def gce(*, read_only: bool, name: str = "disk") -> Json:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def iscsi(*, read_only: bool) -> Json:
    return {"iscsi": {"iqn": "iqn.x", "readOnly": read_only}}


def rbd(*monitors: str, read_only: bool = False, image: str = "i") -> Json:
    return {"rbd": {"monitors": list(monitors), "image": image, "readOnly": read_only}}


def ebs(name: str, *, read_only: bool = False) -> Json:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def disks(name: str, mine: Json, other: Json, *, conflict: bool) -> VolumeCase:
    """A pod with one disk, and another with another on node a."""
    answers = {"a": NO_DISK if conflict else FITS, "b": FITS}
    return VolumeCase(name, pod_with(mine), [], answers, [pod_with(other, name="other", node="a")])


WANTS_ALONE = pod_with(*uses("alone"))


@table(
    disks("GCE, both read", gce(read_only=True), gce(read_only=True), conflict=False),
    disks("GCE, one writes", gce(read_only=True), gce(read_only=False), conflict=True),
    disks(
        "GCE, other disks",
        gce(read_only=False),
        gce(read_only=False, name="another"),
        conflict=False,
    ),
    disks("EBS", ebs("vol-1", read_only=True), ebs("vol-1", read_only=True), conflict=True),
    disks("EBS, other disks", ebs("vol-1"), ebs("vol-2"), conflict=False),
    disks("iSCSI, both read", iscsi(read_only=True), iscsi(read_only=True), conflict=False),
    disks("iSCSI, one writes", iscsi(read_only=True), iscsi(read_only=False), conflict=True),
    disks("RBD, a monitor in common", rbd("m1", "m2"), rbd("m2", "m3"), conflict=True),
    disks("RBD, other monitors", rbd("m1"), rbd("m2"), conflict=False),
    disks("RBD, both read", rbd("m1", read_only=True), rbd("m1", read_only=True), conflict=False),
    disks("RBD, other images", rbd("m1"), rbd("m1", image="j"), conflict=False),
    VolumeCase(
        "a claim for one pod is in use on every node",
        WANTS_ALONE,
        [ALONE],
        {"a": IN_USE, "b": IN_USE},
        [pod_with(*uses("alone"), name="user", node="a")],
    ),
    VolumeCase(
        "a claim of that name in another namespace",
        WANTS_ALONE,
        [ALONE],
        SKIP,
        [pod_with(*uses("alone"), name="user", node="a", namespace="other")],
    ),
    VolumeCase("no claim", pod_with(*uses("x")), [], 'persistentvolumeclaim "x" not found'),
)
def test_nodes_are_refused_for_disks_and_claims_in_use(case: VolumeCase) -> None:
    check(VolumeRestrictions, NODES, case)


def test_a_disk_is_free_again_when_its_pod_has_left() -> None:
    first, second = (pod_with(ebs("vol-1"), name=name, node="a") for name in ("x", "y"))
    state = cluster(NODES, [first, second])
    plugin = make(VolumeRestrictions, state)
    state.remove_pod(first)
    assert ask(plugin, pod_with(ebs("vol-1")), state) == {"a": (NO_DISK,)}
    state.remove_pod(second)
    assert ask(plugin, pod_with(ebs("vol-1")), state) == {}


def test_a_disk_moves_with_its_row_when_another_node_goes() -> None:
    state = cluster(
        (make_node("a"), make_node("b"), make_node("c")),
        [pod_with(ebs("vol-1"), name="x", node="c")],
    )
    state.remove_node("a")
    assert ask(make(VolumeRestrictions, state), pod_with(ebs("vol-1")), state) == {"c": (NO_DISK,)}


def test_taking_a_user_away_compares_names_only() -> None:
    """Upstream's dry run of preemption forgets the namespace; so must ours."""
    state = cluster(NODES, [pod_with(*uses("alone"), name="user", node="a")], [ALONE])
    plugin = make(VolumeRestrictions, state)
    nodes, pod = NodeView(state), pod_with(*uses("alone"))
    stranger = pod_with(*uses("alone"), name="stranger", node="b", namespace="other")
    used = ClaimsInUse(frozenset({"alone"}), 1)
    assert plugin.with_pod(used, pod, stranger, nodes, 1, -1).users == 0
    assert plugin.with_pod(used, pod, pod_with(name="idle"), nodes, 1, -1) is used


@pytest.mark.parametrize(
    ("deleted", "hint"),
    [
        (pod_with(*uses("alone"), name="x"), True),
        (pod_with(*uses("alone"), name="x", namespace="other"), False),
        (pod_with(ebs("vol-1"), name="x"), True),
        (pod_with(name="x"), False),
    ],
)
def test_a_deleted_pod_that_shared_a_volume_is_a_hint(deleted: Pod, hint: bool) -> None:
    plugin = make(VolumeRestrictions, cluster())
    kind = EventResource.ASSIGNED_POD
    (event,) = [e for e in plugin.events_to_register() if e.event.resource is kind]
    assert event.hint(pod_with(*uses("alone"), ebs("vol-1")), deleted, None) is hint


def test_a_claim_for_one_pod_only_is_refused_everywhere_and_can_be_preempted() -> None:
    there = pod_with(*uses("alone"), name="there", node="a")
    state = make_state(NODES, [there], [ALONE])
    result = asked(state, pod_with(*uses("alone")), only("VolumeRestrictions"))
    refused = ("VolumeRestrictions", (Code.UNSCHEDULABLE.value, (IN_USE,)))
    assert result.first == {"a": refused, "b": refused}
