"""NodeVolumeLimits: what counts as a volume of a driver, and when a node is full."""

import pytest

from moorage.config import FeatureGates
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.status import SKIP
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.testing import cluster, make_node
from plugins.tables import FITS, table
from plugins.volumes.judging import VolumeCase, ask, check, make
from plugins.volumes.storage_objects import (
    DRIVER,
    attachment,
    claim,
    csi_driver,
    csi_node,
    pod_with,
    storage_class,
    uses,
    volume,
)

FULL = "node(s) exceed max volume count"
NODES = (make_node("a"), make_node("b"))
EBS = "ebs.csi.aws.com"


def bound(*names: str) -> list[ApiObject]:
    """Claims bound to volumes of DRIVER with the claim's name as handle."""
    objects: list[ApiObject] = []
    for name in names:
        source = {"driver": DRIVER, "volumeHandle": name}
        objects += [claim(name, bound_to=f"pv-{name}"), volume(f"pv-{name}", csi=source)]
    return objects


GUEST = pod_with(*uses("x"), name="guest", node="a")
GUEST_OF_TWO = pod_with(*uses("x", "y"), name="guest", node="a")
GUEST_WITH_DISK = pod_with({"awsElasticBlockStore": {"volumeID": "vol-1"}}, name="guest", node="a")
THREE = bound("x", "y", "z")
WANTS_Z = pod_with(*uses("z"))


def wants_disk(name: str) -> Pod:
    return pod_with({"awsElasticBlockStore": {"volumeID": name}})


@table(
    VolumeCase(
        "a place is left", WANTS_Z, [*THREE, csi_node("a", 2)], {"a": FITS, "b": FITS}, [GUEST]
    ),
    VolumeCase(
        "no place is left",
        WANTS_Z,
        [*THREE, csi_node("a", 2), csi_node("b", 2)],
        {"a": FULL, "b": FITS},
        [GUEST_OF_TWO],
    ),
    VolumeCase(
        "a volume that is there already costs nothing",
        pod_with(*uses("x")),
        [*THREE, csi_node("a", 2), csi_node("b", 2)],
        {"a": FITS, "b": FITS},
        [GUEST_OF_TWO],
    ),
    VolumeCase(
        "a node that names no limit",
        WANTS_Z,
        [*THREE, csi_node("a")],
        {"a": FITS, "b": FITS},
        [GUEST_OF_TWO],
    ),
    VolumeCase(
        "the attachment of a pod's volume counts only once",
        WANTS_Z,
        [*THREE, csi_node("a", 2), attachment("1", "pv-x", "a")],
        {"a": FITS, "b": FITS},
        [GUEST],
    ),
    VolumeCase(
        "an attachment without a pod counts",
        WANTS_Z,
        [*THREE, csi_node("a", 2), attachment("1", "pv-x", "a"), attachment("2", "pv-y", "a")],
        {"a": FULL, "b": FITS},
        [GUEST],
    ),
    VolumeCase(
        "an unbound claim counts for the driver of its class",
        pod_with(*uses("new")),
        [*bound("x"), claim("new"), storage_class(provisioner=DRIVER), csi_node("a", 1)],
        {"a": FULL, "b": FITS},
        [GUEST],
    ),
    *(
        VolumeCase(
            f"the disk {name} of a migrated plugin counts for the driver",
            wants_disk(name),
            [csi_node("a", 1, driver=EBS), csi_node("b", 1, driver=EBS)],
            {"a": FULL, "b": FITS},
            [GUEST_WITH_DISK],
        )
        for name in ("vol-2", "aws://zone/vol-2")
    ),
)
def test_nodes_are_refused_that_have_no_place_for_another_volume(case: VolumeCase) -> None:
    check(NodeVolumeLimits, NODES, case)


def test_attachments_are_followed_as_they_come_and_go() -> None:
    first, second = attachment("1", "pv-x", "a"), attachment("2", "pv-y", "a")
    state = cluster(NODES, [], [*bound("x", "y", "z"), csi_node("a", 2), csi_node("b", 2), first])
    plugin, known = make(NodeVolumeLimits, state), state.listers.of(type(first))
    assert ask(plugin, pod_with(*uses("z")), state) == {}
    known.put(second)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": (FULL,)}
    known.put(attachment("2", "pv-y", "b"))
    assert ask(plugin, pod_with(*uses("z")), state) == {}
    known.put(attachment("1", "pv-x", "b"))
    assert ask(plugin, pod_with(*uses("z")), state) == {"b": (FULL,)}
    known.remove(second)
    assert ask(plugin, pod_with(*uses("z")), state) == {}


def test_a_driver_whose_volumes_all_left_has_room_again() -> None:
    guest = pod_with(*uses("x", "y"), name="guest", node="a")
    state = cluster(NODES, [guest], [*bound("x", "y", "z"), csi_node("a", 2)])
    plugin = make(NodeVolumeLimits, state)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": (FULL,)}
    state.remove_pod(guest)
    disks = ({"awsElasticBlockStore": {"volumeID": f"vol-{i}"}} for i in range(2))
    state.add_pod(pod_with(*disks, name="other", node="a"))
    assert ask(plugin, pod_with(*uses("z")), state) == {}


def test_a_guest_that_could_not_be_counted_is_forgotten_when_it_leaves() -> None:
    odd = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
    guest, faulty = pod_with(*uses("x"), name="g", node="a"), pod_with(odd, name="f", node="a")
    state = cluster(NODES, [guest, faulty], [*bound("x", "z"), csi_node("a", 1)])
    plugin = make(NodeVolumeLimits, state)
    answer = ask(plugin, pod_with(*uses("z")), state)
    assert isinstance(answer, dict)
    assert "is not supported" in answer["a"][0]
    state.remove_pod(faulty)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": (FULL,)}


def test_a_guest_whose_disk_cannot_be_translated_makes_its_node_an_error() -> None:
    odd = {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}
    state = cluster(
        NODES,
        [pod_with(odd, name="guest", node="a")],
        [*bound("x"), csi_node("a", 9), csi_node("b", 9)],
    )
    text = "converting volume(v0) from inline to csi: kind(Dedicated) is not supported in "
    answer = ask(make(NodeVolumeLimits, state), pod_with(*uses("x")), state)
    assert answer == {"a": (f"{text}csi migration",)}


def test_the_claim_of_an_ephemeral_volume_must_be_the_pods() -> None:
    state = cluster(NODES, [], [claim("pod-v0"), storage_class(provisioner=DRIVER)])
    pod = pod_with({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    text = "PVC default/pod-v0 was not created for pod default/pod (pod is not owner)"
    answer = ask(make(NodeVolumeLimits, state), pod, state)
    assert answer == {"a": (text,), "b": (text,)}


def test_a_missing_claim_is_looked_up_on_every_node() -> None:
    state = cluster(NODES)
    text = 'looking up PVC default/x: persistentvolumeclaim "x" not found'
    answer = ask(make(NodeVolumeLimits, state), pod_with(*uses("x")), state)
    assert answer == {"a": (text,), "b": (text,)}


def test_pods_without_volumes_to_attach_are_none_of_its_business() -> None:
    state = cluster(NODES)
    assert ask(make(NodeVolumeLimits, state), pod_with({"emptyDir": {}}), state) is SKIP


def test_a_driver_may_insist_on_being_installed() -> None:
    objects = [*bound("x"), csi_node("a"), csi_driver(preventPodSchedulingIfMissing=True)]
    state = cluster(NODES, [], objects)
    pod = pod_with(*uses("x"))
    missing = (f"{DRIVER} CSI driver is not installed on the node",)
    assert ask(make(NodeVolumeLimits, state), pod, state) == {"b": missing}
    without = make(NodeVolumeLimits, state, FeatureGates({"VolumeLimitScaling": False}))
    assert ask(without, pod, state) == {}


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [(1, 2, True), (2, 1, False), (None, 1, True)],
)
def test_only_a_raised_limit_is_a_hint(before: int | None, after: int, hint: bool) -> None:
    plugin = make(NodeVolumeLimits, cluster())
    (event,) = [
        e
        for e in plugin.events_to_register()
        if e.event.resource is EventResource.CSI_NODE and e.event.action is ActionType.UPDATE
    ]
    old, new = csi_node("a", before), csi_node("a", after)
    assert event.hint(pod_with(*uses("x")), old, new) is hint
