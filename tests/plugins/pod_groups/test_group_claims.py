"""Devices shared within a pod group: claims being allocated, and claims of the group itself."""

from typing import Any

import msgspec
import pytest

from moorage.cluster.view import NodeView
from moorage.config.feature_gates import FeatureGates
from moorage.framework.status import Code, Status
from moorage.model.devices import ResourceClaim, ResourceClaimConsumerReference
from moorage.model.pod import PodResourceClaim
from moorage.model.pod_group import PodGroup
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.claim_writes import Deallocate
from moorage.plugins.dynamic_resources.claims import (
    claims_of,
    reserved_for,
    users_of_claims,
)
from moorage.plugins.errors import ClaimError
from moorage.testing import cluster, make_node, make_pod
from plugins.devices.device_objects import (
    allocated,
    claim,
    device,
    device_class,
    plugin,
    slice_of,
)
from plugins.pod_groups.gangs import GANGS, World, make_group, member

OWNED = (*GANGS, "DRAWorkloadResourceClaims")
USES = {"resourceClaims": [{"name": "c", "resourceClaimName": "shared"}]}


def owner(**reference: str | None) -> PodGroup:
    group = make_group(min_count=2)
    claims = (PodResourceClaim(name="c", **reference),)
    return msgspec.structs.replace(
        group, spec=msgspec.structs.replace(group.spec, resource_claims=claims)
    )


def world_of(*names: str, gates: tuple[str, ...] = GANGS, devices: int = 1) -> World:
    world = World(gates=gates)
    world.add(make_node("n", cpu="8"), make_group(min_count=len(names)))
    offered = slice_of("s", [device(f"d{i}") for i in range(devices)], node="n")
    for one in (device_class(), offered, claim("shared")):
        world.handlers.add_object(one)
    world.add(*(member(name, spec=USES) for name in names))
    return world


def devices_of(world: World) -> DynamicResources:
    found = world.scheduler.profiles["default-scheduler"].plugins["DynamicResources"]
    assert isinstance(found, DynamicResources)
    return found


def test_pods_of_a_gang_share_a_claim_that_is_only_being_allocated() -> None:
    world = world_of("p0", "p1", "p2")
    world.run()
    assert sorted(world.bound) == ["p0", "p1", "p2"]
    usage = devices_of(world).tracker.usage
    assert dict(usage.dedicated) == {("gpu.example.com", "n", "d0"): 1}, "it is taken once"


def test_another_pod_does_not_share_what_is_being_allocated() -> None:
    world = world_of("p0", "p1")
    world.run()
    world.add(make_pod("single", spec=USES))
    world.run()
    [message] = world.messages("single")
    assert "resource claim default/shared is in the process of being allocated" in message


def test_a_gang_that_fails_promises_nothing_any_more() -> None:
    world = world_of("p0", "p1")
    world.add(member("huge", cpu="99"))
    world.handlers.update_object(make_group(min_count=2), make_group(min_count=3))
    world.run()
    assert not world.bound
    assert not devices_of(world).tracker.usage.dedicated


@pytest.mark.parametrize(
    ("gates", "group", "user"),
    [
        (OWNED, owner(resource_claim_name="shared"), ("scheduling.k8s.io", "podgroups", "gang")),
        (OWNED, owner(resource_claim_name="other"), ("", "pods", "p0")),
        (OWNED, owner(resource_claim_template_name="shared"), ("", "pods", "p0")),
        (GANGS, owner(resource_claim_name="shared"), None),
    ],
)
def test_for_whom_a_claim_is_reserved(
    gates: tuple[str, ...], group: PodGroup, user: tuple[str, ...] | None
) -> None:
    state = cluster(others=[group, claim("shared")])
    tracker = plugin(state.listers, FeatureGates(dict.fromkeys(gates, True))).tracker
    users = users_of_claims(member("p0", spec=USES), tracker)
    assert [(u.api_group, u.resource, u.name) for u in users] == ([user] if user else [])


def test_a_claim_of_the_group_may_be_used_by_all_its_pods() -> None:
    state = cluster()
    tracker = plugin(state.listers, FeatureGates(dict.fromkeys(OWNED, True))).tracker
    held = _held_by_group(claim("shared", status=allocated(("n", "d0"))))
    assert reserved_for(member("p0"), held, tracker)
    assert not reserved_for(member("p0", "others"), held, tracker)
    assert not reserved_for(make_pod("single"), held, tracker)
    assert not reserved_for(member("p0"), held, plugin(cluster().listers).tracker)


def test_a_claim_made_for_the_group_is_accepted_only_with_the_gate() -> None:
    reference = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "name": "gang",
        "uid": "gang",
        "controller": True,
    }
    template = [{"name": "c", "resourceClaimTemplateName": "t"}]
    status = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "shared"}]}

    def asked(gates: tuple[str, ...], group: str = "gang") -> str:
        made = claim("shared", ownerReferences=[reference])
        state = cluster(others=[made, make_group()])
        pod = member("p0", group, spec={"resourceClaims": template}, status=status)
        tracker = plugin(state.listers, FeatureGates(dict.fromkeys(gates, True))).tracker
        try:
            return claims_of(pod, tracker)[0].name
        except ClaimError as error:
            return str(error)

    made_for = "ResourceClaim default/shared was not created for Pod default/p0"
    assert asked(OWNED) == "shared"
    assert asked(GANGS) == f"{made_for} (Pod is not owner)"
    assert asked(OWNED, "other") == f"{made_for} (neither Pod nor PodGroup other is the owner)"


def test_a_group_without_placed_pods_gives_its_claim_back() -> None:
    world = World(gates=OWNED)
    group = owner(resource_claim_name="shared")
    held = _held_by_group(
        claim("shared", status=allocated(("gone", "d0"), nodeSelector=_only("gone")))
    )
    world.add(make_node("n", cpu="8"), group)
    for one in (device_class(), held):
        world.handlers.add_object(one)
    world.add(member("p0", spec=USES), member("p1", spec=USES))
    world.run()
    work = devices_of(world).work
    assert work[0] == Deallocate(held)
    placed = member("p9", spec={**USES, "nodeName": "n"}, node_name="n")
    work.clear()
    world.add(placed)
    world.pass_time(400, step=20.0)
    assert len(world.messages("p0")) > 1
    assert not work, "one of its pods has a place"


def test_a_group_of_which_no_pod_is_tried_keeps_its_claim() -> None:
    world = World(gates=OWNED)
    held = _held_by_group(claim("shared", status=allocated(("n", "d0"))))
    world.add(make_node("n", cpu="8"), owner(resource_claim_name="shared"))
    for one in (device_class(), held):
        world.handlers.add_object(one)
    going = member("p1", spec=USES, metadata={"deletionTimestamp": "2026-11-19T00:00:00Z"})
    world.add(member("p0", spec=USES), going)
    world.run()
    assert "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining" in world.messages("p0")[0]
    assert not devices_of(world).work


def test_a_missing_group_keeps_the_pod_waiting() -> None:
    state = cluster([make_node("n")], others=[claim("shared"), device_class()])
    asked = plugin(state.listers, FeatureGates(dict.fromkeys(OWNED, True)))
    status = asked.pre_filter(member("p0", spec=USES), NodeView(state))
    text = 'podgroup.scheduling.k8s.io "gang" not found'
    assert status == Status(Code.UNRESOLVABLE, (text,))


def _held_by_group(made: ResourceClaim) -> ResourceClaim:
    user = ResourceClaimConsumerReference("scheduling.k8s.io", "podgroups", "gang", "gang")
    status = msgspec.structs.replace(made.status, reserved_for=(user,))
    return msgspec.structs.replace(made, status=status)


def _only(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}
