"""VolumeRestrictions: disks that pods name themselves, and claims for one pod."""

import pytest

from framework.building import make_state, only
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import EventResource, QueueingHint
from moorage.framework.status import SKIP, Code, Status
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.plugins.volume_restrictions import ClaimsInUse, VolumeRestrictions
from moorage.testing import cluster, make_node
from plugins.tables import asked
from plugins.volumes.judging import ask, make
from plugins.volumes.storage_objects import claim, pod_with, uses

NO_DISK = ("node(s) had no available disk",)
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
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


@pytest.mark.parametrize(
    ("mine", "other", "conflict"),
    [
        (gce(read_only=True), gce(read_only=True), False),
        (gce(read_only=True), gce(read_only=False), True),
        (gce(read_only=False), gce(read_only=False, name="another"), False),
        (ebs("vol-1", read_only=True), ebs("vol-1", read_only=True), True),
        (ebs("vol-1"), ebs("vol-2"), False),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (iscsi(read_only=True), iscsi(read_only=False), True),
        (rbd("m1", "m2"), rbd("m2", "m3"), True),
        (rbd("m1"), rbd("m2"), False),
        (rbd("m1", read_only=True), rbd("m1", read_only=True), False),
        (rbd("m1"), rbd("m1", image="j"), False),
    ],
)
def test_disks_conflict_on_a_node_unless_both_only_read(
    mine: Json, other: Json, conflict: bool
) -> None:
    state = cluster(NODES, [pod_with(other, name="other", node="a")])
    answer = ask(make(VolumeRestrictions, state), pod_with(mine), state)
    assert answer == ({"a": NO_DISK} if conflict else {})


def test_a_disk_is_free_again_when_its_pod_has_left() -> None:
    first, second = (pod_with(ebs("vol-1"), name=name, node="a") for name in ("x", "y"))
    state = cluster(NODES, [first, second])
    plugin = make(VolumeRestrictions, state)
    state.remove_pod(first)
    assert ask(plugin, pod_with(ebs("vol-1")), state) == {"a": NO_DISK}
    state.remove_pod(second)
    assert ask(plugin, pod_with(ebs("vol-1")), state) == {}


def test_a_disk_moves_with_its_row_when_another_node_goes() -> None:
    state = cluster(
        (make_node("a"), make_node("b"), make_node("c")),
        [pod_with(ebs("vol-1"), name="x", node="c")],
    )
    state.remove_node("a")
    assert ask(make(VolumeRestrictions, state), pod_with(ebs("vol-1")), state) == {"c": NO_DISK}


def test_a_claim_for_one_pod_is_refused_everywhere_while_in_use() -> None:
    state = cluster(NODES, [pod_with(*uses("alone"), name="user", node="a")], [ALONE])
    answer = ask(make(VolumeRestrictions, state), pod_with(*uses("alone")), state)
    assert answer == {"a": IN_USE, "b": IN_USE}


def test_a_claim_for_one_pod_that_nobody_uses_is_nothing_to_check() -> None:
    elsewhere = pod_with(*uses("alone"), name="user", node="a", namespace="other")
    state = cluster(NODES, [elsewhere], [ALONE])
    assert ask(make(VolumeRestrictions, state), pod_with(*uses("alone")), state) is SKIP


def test_a_missing_claim_is_reported_in_the_listers_words() -> None:
    state = cluster(NODES)
    answer = ask(make(VolumeRestrictions, state), pod_with(*uses("x")), state)
    assert answer == Status(Code.UNRESOLVABLE, ('persistentvolumeclaim "x" not found',))


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
        (pod_with(*uses("alone"), name="x"), QueueingHint.QUEUE),
        (pod_with(*uses("alone"), name="x", namespace="other"), QueueingHint.SKIP),
        (pod_with(ebs("vol-1"), name="x"), QueueingHint.QUEUE),
        (pod_with(name="x"), QueueingHint.SKIP),
    ],
)
def test_a_deleted_pod_that_shared_a_volume_is_a_hint(deleted: Pod, hint: QueueingHint) -> None:
    plugin = make(VolumeRestrictions, cluster())
    (event,) = [e for e in plugin.events_to_register() if e.event.resource is EventResource.POD]
    assert event.hint(pod_with(*uses("alone"), ebs("vol-1")), deleted, None) is hint


def test_a_claim_for_one_pod_only_is_refused_everywhere_and_can_be_preempted() -> None:
    there = pod_with(*uses("alone"), name="there", node="a")
    state = make_state(NODES, [there], [ALONE])
    result = asked(state, pod_with(*uses("alone")), only("VolumeRestrictions"))
    refused = ("VolumeRestrictions", (Code.UNSCHEDULABLE.value, IN_USE))
    assert result.first == {"a": refused, "b": refused}
