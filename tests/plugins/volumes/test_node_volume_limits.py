"""NodeVolumeLimits: what counts as a volume of a driver, and when a node is full."""

import pytest

from moorage.config import FeatureGates
from moorage.framework.cluster_events import ActionType, EventResource, QueueingHint
from moorage.framework.status import SKIP
from moorage.model.meta import ApiObject, Json
from moorage.plugins.node_volume_limits import NodeVolumeLimits
from moorage.testing import cluster, make_node
from plugins.volumes.judging import ask, make
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

FULL = ("node(s) exceed max volume count",)
NODES = (make_node("a"), make_node("b"))
EBS = "ebs.csi.aws.com"


def bound(*names: str) -> list[ApiObject]:
    """Claims bound to volumes of DRIVER with the claim's name as handle."""
    objects: list[ApiObject] = []
    for name in names:
        source = {"driver": DRIVER, "volumeHandle": name}
        objects += [claim(name, bound_to=f"pv-{name}"), volume(f"pv-{name}", csi=source)]
    return objects


def test_a_node_is_full_when_its_pods_use_all_places() -> None:
    guest = pod_with(*uses("x", "y"), name="guest", node="a")
    objects = [*bound("x", "y", "z"), csi_node("a", 2), csi_node("b", 2)]
    state = cluster(NODES, [guest], objects)
    plugin = make(NodeVolumeLimits, state)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": FULL}
    assert ask(plugin, pod_with(*uses("x")), state) == {}, "a volume already there costs nothing"
    state.remove_pod(guest)
    assert ask(plugin, pod_with(*uses("z")), state) == {}


def test_attachments_without_a_pod_count_too_but_only_once() -> None:
    guest = pod_with(*uses("x"), name="guest", node="a")
    objects = [
        *bound("x", "y", "z"),
        csi_node("a", 2),
        attachment("1", "pv-x", "a"),
    ]
    state = cluster(NODES, [guest], objects)
    plugin = make(NodeVolumeLimits, state)
    assert ask(plugin, pod_with(*uses("z")), state) == {}
    attached = attachment("2", "pv-y", "a")
    state.listers.of(type(attached)).put(attached)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": FULL}


def test_attachments_are_followed_as_they_come_and_go() -> None:
    first, second = attachment("1", "pv-x", "a"), attachment("2", "pv-y", "a")
    state = cluster(NODES, [], [*bound("x", "y", "z"), csi_node("a", 2), csi_node("b", 2), first])
    plugin, known = make(NodeVolumeLimits, state), state.listers.of(type(first))
    assert ask(plugin, pod_with(*uses("z")), state) == {}
    known.put(second)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": FULL}
    known.put(attachment("2", "pv-y", "b"))
    assert ask(plugin, pod_with(*uses("z")), state) == {}
    known.put(attachment("1", "pv-x", "b"))
    assert ask(plugin, pod_with(*uses("z")), state) == {"b": FULL}
    known.remove(second)
    assert ask(plugin, pod_with(*uses("z")), state) == {}


def test_a_driver_whose_volumes_all_left_has_room_again() -> None:
    guest = pod_with(*uses("x", "y"), name="guest", node="a")
    state = cluster(NODES, [guest], [*bound("x", "y", "z"), csi_node("a", 2)])
    plugin = make(NodeVolumeLimits, state)
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": FULL}
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
    assert ask(plugin, pod_with(*uses("z")), state) == {"a": FULL}


def test_an_unbound_claim_counts_for_the_driver_of_its_class() -> None:
    guest = pod_with(*uses("x"), name="guest", node="a")
    objects = [*bound("x"), claim("new"), storage_class(provisioner=DRIVER), csi_node("a", 1)]
    state = cluster(NODES, [guest], objects)
    assert ask(make(NodeVolumeLimits, state), pod_with(*uses("new")), state) == {"a": FULL}


@pytest.mark.parametrize(
    "source",
    [
        {"awsElasticBlockStore": {"volumeID": "vol-2"}},
        {"awsElasticBlockStore": {"volumeID": "aws://zone/vol-2"}},
    ],
)
def test_disks_of_migrated_plugins_count_for_the_driver(source: Json) -> None:
    guest = pod_with({"awsElasticBlockStore": {"volumeID": "vol-1"}}, name="guest", node="a")
    state = cluster(NODES, [guest], [csi_node("a", 1, driver=EBS), csi_node("b", 1, driver=EBS)])
    assert ask(make(NodeVolumeLimits, state), pod_with(source), state) == {"a": FULL}


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
    assert ask(make(NodeVolumeLimits, state), pod, state) == {}
    plugin = make(NodeVolumeLimits, state, FeatureGates({"VolumeLimitScaling": True}))
    missing = (f"{DRIVER} CSI driver is not installed on the node",)
    assert ask(plugin, pod, state) == {"b": missing}


@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [(1, 2, QueueingHint.QUEUE), (2, 1, QueueingHint.SKIP), (None, 1, QueueingHint.QUEUE)],
)
def test_only_a_raised_limit_is_a_hint(before: int | None, after: int, hint: QueueingHint) -> None:
    plugin = make(NodeVolumeLimits, cluster())
    (event,) = [
        e
        for e in plugin.events_to_register()
        if e.event.resource is EventResource.CSI_NODE and e.event.action is ActionType.UPDATE
    ]
    old, new = csi_node("a", before), csi_node("a", after)
    assert event.hint(pod_with(*uses("x")), old, new) is hint
