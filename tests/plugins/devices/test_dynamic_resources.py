"""DynamicResources before a node is chosen: claims, nodes, time limits, scores and hints."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import KubeSchedulerConfiguration, load_profile
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.engine.decisions import Bind, Unschedulable
from moorage.errors import PluginError
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.plugin import PreFilterResult
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.model.devices import ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject, Json
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.claim_writes import Deallocate
from moorage.simulator.offline import PodOutcome, place_all
from moorage.simulator.world import World
from moorage.testing import cluster, make_node, make_pod
from plugins.devices.device_objects import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    first_available,
    plugin,
    pod_with,
    request,
    slice_of,
)
from plugins.tables import table

POD = pod_with("a")
A = f'device.attributes["{DRIVER}"]'


CLASS = device_class()
ONE = slice_of("s", [device("d")], node="n")
TAINTED = slice_of("s", [device("d", taints=[{"key": "k", "effect": "NoSchedule"}])], node="n")
HALF = slice_of("half", [device("d")], node="n", count=2)
IN_ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}
TOLERATIONS = [{"key": "k", "operator": "Exists"}]
TWO = claim("a", request("r", count=2))
THREE = claim("a", request("r", count=3))
GROUPS = FeatureGates({"DRADeviceCompatibilityGroups": True})
NOT_ENOUGH = "cannot allocate all claims"
FITS = ""


def without(*gates: str) -> FeatureGates:
    return FeatureGates(dict.fromkeys(gates, False))


def pool(**reached: Any) -> ResourceSlice:
    """A device, and which nodes reach it."""
    return slice_of("s", [device("d")], pool="p", **reached)


def distinct(count: int) -> ResourceClaim:
    """So many devices of different colours."""
    constraint = {"distinctAttribute": f"{DRIVER}/colour"}
    return claim("a", request("r", count=count), constraints=[constraint])


def shelf(counter_set: str = "set", **consumption: object) -> list[ApiObject]:
    """A device of the node, which draws on counters in a slice for another node."""
    draws = {"counterSet": "set", "counters": {"units": {"value": "1"}}, **consumption}
    counters = {"name": counter_set, "counters": {"units": {"value": "1"}}}
    return [
        slice_of("s", [device("d", consumesCounters=[draws])], node="n", pool="p", count=2),
        slice_of("t", [], node="other", pool="p", count=2, sharedCounters=[counters]),
    ]


def grouped(*groups: str) -> list[ApiObject]:
    """Devices that draw on the same counters; each with the groups that its letters name."""
    draws = {"counterSet": "set", "counters": {"units": {"value": "1"}}}
    counters = {"name": "set", "counters": {"units": {"value": "9"}}}
    devices = [
        device(f"d{i}" if i else "d", consumesCounters=[draws | {"compatibilityGroups": [*names]}])
        for i, names in enumerate(groups)
    ]
    return [
        slice_of("s", devices, node="n", count=2),
        slice_of("t", [], node="n", count=2, sharedCounters=[counters]),
    ]


def sharing(memory: str, mode: str = "ExactCount") -> ResourceClaim:
    """A part of a device, or of all of them."""
    count = 0 if mode == "All" else 1
    capacity = {"requests": {"memory": memory}}
    return claim("a", request("r", allocationMode=mode, count=count, capacity=capacity))


def shared_device(name: str, memory: str, **limits: str) -> Json:
    """A device for several claims; amounts may be limited to a range."""
    value: dict[str, object] = {"value": memory}
    if limits:
        value["requestPolicy"] = {"default": limits["min"], "validRange": limits}
    return device(name, capacity={"memory": value}, allowMultipleAllocations=True)


def given(**fields: object) -> Json:
    """A status with device d and what is said of it."""
    result = {"request": "r", "driver": DRIVER, "pool": "n", "device": "d", **fields}
    return {"allocation": {"devices": {"results": [result]}}}


COLOURS = slice_of(
    "s",
    [device(f"d{i}", attributes={"colour": c}) for i, c in enumerate(("red", "blue", "red"))],
    node="n",
)
SHARED = slice_of("s", [shared_device("d", "10Gi")], node="n")
UNEVEN = slice_of("s", [shared_device("d", "10Gi"), shared_device("e", "2Gi")], node="n")
STEPS = slice_of("s", [shared_device("d", "20E", min="1", step="1G")], node="n")
HALVES = slice_of("s", [shared_device("d", "2", min="500m", step="500m", max="2")], node="n")
HALF_TAKEN = claim("held", status=given(shareID="1", consumedCapacity={"memory": "500m"}))
HOLDER = claim("held", status=given(shareID="1", consumedCapacity={"memory": "8Gi"}))


class DeviceCase(NamedTuple):
    """A claim, what there is beside its class, and what keeps its pod from node n in zone z."""

    id: str
    claim: ResourceClaim
    objects: Sequence[ApiObject]
    expected: str
    gates: FeatureGates = DEFAULT_FEATURE_GATES


@table(
    # Which devices a node reaches.
    DeviceCase("a device of the node", claim("a"), [ONE], FITS),
    DeviceCase("no device", claim("a"), [], NOT_ENOUGH),
    DeviceCase("one device for two", claim("a", request("r", count=2)), [ONE], NOT_ENOUGH),
    DeviceCase("of all nodes", claim("a"), [pool(allNodes=True)], FITS),
    DeviceCase("of another node", claim("a"), [pool(nodeName="other")], NOT_ENOUGH),
    DeviceCase(
        "of the nodes of a zone",
        claim("a"),
        [pool(nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [IN_ZONE]}]})],
        FITS,
    ),
    DeviceCase(
        "each device says it, and none does",
        claim("a"),
        [pool(perDeviceNodeSelection=True)],
        NOT_ENOUGH,
    ),
    DeviceCase("nobody says it", claim("a"), [pool()], NOT_ENOUGH),
    # Pools.
    DeviceCase(
        "only the newest generation of a pool counts",
        claim("a"),
        [ONE, slice_of("new", [], node="n", generation=2)],
        NOT_ENOUGH,
    ),
    DeviceCase("a pool that is not complete", claim("a"), [HALF], NOT_ENOUGH),
    DeviceCase(
        "all devices of a pool that is not complete",
        claim("a", request("r", allocationMode="All", count=0)),
        [HALF],
        "claim default/a, request r: asks for all devices, but resource pool "
        f"{DRIVER}/n is currently being updated",
    ),
    DeviceCase(
        "two devices of one name",
        claim("a"),
        [slice_of("twice", [device("d"), device("d")], node="n")],
        "invalid resource pools were encountered",
    ),
    # Taints, and devices that are in use.
    DeviceCase("a taint", claim("a"), [TAINTED], NOT_ENOUGH),
    DeviceCase(
        "a taint that is tolerated",
        claim("a", request("r", tolerations=TOLERATIONS)),
        [TAINTED],
        FITS,
    ),
    DeviceCase(
        "a taint without the gate",
        claim("a"),
        [TAINTED],
        FITS,
        without("DRADeviceTaints", "DRADeviceTaintRules"),
    ),
    DeviceCase(
        "in use", claim("a"), [ONE, claim("held", status=allocated(("n", "d")))], NOT_ENOUGH
    ),
    DeviceCase(
        "in use, but for an administrator",
        claim("a", request("r", adminAccess=True)),
        [ONE, claim("held", status=allocated(("n", "d")))],
        FITS,
    ),
    # Features.
    DeviceCase("alternatives", claim("a", first_available("r", request("s"))), [ONE], FITS),
    DeviceCase(
        "a capacity without the gate",
        claim("a", request("r", capacity={"requests": {"memory": "1"}})),
        [ONE],
        "claim default/a, request r: has capacity requests, "
        "but the DRAConsumableCapacity feature is disabled",
        without("DRAConsumableCapacity"),
    ),
    DeviceCase(
        "attributes that a request derives",
        claim("a", request("r", derivedAttributes=[{"name": "a/b", "expression": "1"}])),
        [ONE],
        "claim default/a, request r: cannot handle request with derived attributes, "
        "the feature is disabled",
    ),
    DeviceCase(
        "more devices than a claim can list",
        claim("a", request("r", count=20), request("s", count=13)),
        [ONE],
        "claim default/a, request s: adding 13 devices exceeds the claim limit of 32, "
        "with 20 already accounted for",
    ),
    # Constraints and counters.
    DeviceCase("distinct values", distinct(2), [COLOURS], FITS),
    DeviceCase("of one request, too, none occurs twice", distinct(3), [COLOURS], NOT_ENOUGH),
    DeviceCase("counters of a slice for other nodes", claim("a"), shelf(), FITS),
    DeviceCase(
        "counters that nobody brings",
        claim("a"),
        shelf("other"),
        "invalid resource pools were encountered",
    ),
    DeviceCase(
        "devices of groups that cannot be told apart",
        claim("a"),
        shelf(compatibilityGroups=["x"]),
        NOT_ENOUGH,
    ),
    DeviceCase("one of a group", claim("a"), shelf(compatibilityGroups=["x"]), FITS, GROUPS),
    DeviceCase("with a group in common", TWO, grouped("xy", "yz"), FITS, GROUPS),
    DeviceCase("without a group in common", TWO, grouped("x", "y"), NOT_ENOUGH, GROUPS),
    DeviceCase("a third has one in common", TWO, grouped("x", "y", "yx"), FITS, GROUPS),
    DeviceCase("not with the two together", THREE, grouped("xy", "xz", "yz"), NOT_ENOUGH, GROUPS),
    DeviceCase("with a group and without", TWO, grouped("x", ""), NOT_ENOUGH, GROUPS),
    DeviceCase("none has a group", TWO, grouped("", ""), FITS, GROUPS),
    DeviceCase(
        "beside one of a group that is in use",
        claim("a"),
        [*grouped("x", "y"), claim("held", status=given())],
        NOT_ENOUGH,
        GROUPS,
    ),
    # Capacities.
    DeviceCase("a share of a capacity", sharing("4Gi"), [SHARED], FITS),
    DeviceCase("a capacity that is used up", sharing("4Gi"), [SHARED, HOLDER], NOT_ENOUGH),
    DeviceCase("of all devices a small one is left out", sharing("4Gi", "All"), [UNEVEN], FITS),
    DeviceCase(
        "of all devices one is used up", sharing("4Gi", "All"), [UNEVEN, HOLDER], NOT_ENOUGH
    ),
    DeviceCase(
        "a capacity beyond int64",
        sharing("20E"),
        [STEPS],
        f"claim default/a, request r: checking capacity for device {DRIVER}/n/d: "
        'capacity "memory": '
        "capacity request cannot be represented in the device's range arithmetic: "
        "request 20E exceeds MaxInt64",
    ),
    DeviceCase(
        "a capacity that is rounded beyond int64",
        sharing("9223372036854775807", "All"),
        [STEPS],
        'claim default/a, request r: checking capacity for device d: capacity "memory": '
        "capacity request cannot be represented in the device's range arithmetic: "
        "rounding request 9223372036854775807 up to the next step passes MaxInt64",
    ),
    DeviceCase(
        "a negative capacity",
        sharing("-1"),
        [SHARED],
        f"claim default/a, request r: checking capacity for device {DRIVER}/n/d: "
        'capacity "memory": '
        "capacity value is negative",
    ),
    DeviceCase(
        "a step that is no whole number", sharing("1300m"), [HALVES, HALF_TAKEN], NOT_ENOUGH
    ),
    DeviceCase(
        "a step that is no whole number, with the gate",
        sharing("1300m"),
        [HALVES, HALF_TAKEN],
        FITS,
        FeatureGates({"DRAFractionalCapacityRange": True}),
    ),
    # Allocated claims.
    DeviceCase(
        "an allocation that leaves out what the node does for others",
        claim("a", status=given(skipNodeOperations=["PrepareResources"])),
        [ONE],
        "resourceclaim not available on the node",
    ),
)
def test_a_node_is_refused_that_lacks_the_devices(case: DeviceCase) -> None:
    found = verdict(POD, case.claim, CLASS, *case.objects, gates=case.gates)
    assert "; ".join(found) == case.expected


def verdict(
    pod: Pod,
    *others: ApiObject,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> list[str]:
    """What keeps a pod from a node; an empty list means nothing."""
    state = cluster([make_node("n", zone="z")], others=others)
    asked = plugin(state.listers, gates)
    nodes = NodeView(state)
    before = asked.pre_filter(pod, nodes)
    if isinstance(before, Status):
        return [f"[PreFilter] {before.message}"]
    assert isinstance(before, PreFilterResult)
    return [reason.text for reason in asked.filter(pod, nodes, before.state).reasons_of(0)]


def world_of(*objects: ApiObject) -> tuple[World, Profile]:
    world = World(KubeSchedulerConfiguration(profiles=(load_profile({}, "test"),)))
    world.add_all(objects)
    (profile,) = world.profiles.values()
    return world, profile


@pytest.mark.parametrize(
    ("claims", "pod", "message"),
    [
        ([], POD, 'could not find ResourceClaim "default/a"'),
        (
            [claim("a", deletionTimestamp="2026-01-01T00:00:00Z")],
            POD,
            'resourceclaim "a" is being deleted',
        ),
        (
            [],
            make_pod(spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}),
            'pod "default/pod": ResourceClaim not created yet',
        ),
        (
            [claim("a")],
            make_pod(
                spec={"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
                status={"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "a"}]},
            ),
            "ResourceClaim default/a was not created for Pod default/pod (Pod is not owner)",
        ),
        (
            [],
            make_pod(spec={"resourceClaims": [{"name": "c"}]}),
            'pod "default/pod", spec.resourceClaim "c": none of the supported fields are set',
        ),
    ],
)
def test_pods_wait_outside_until_their_claims_are_usable(
    claims: list[ResourceClaim], pod: Pod, message: str
) -> None:
    state = cluster(others=claims)
    assert plugin(state.listers).pre_enqueue(pod) == Status(Code.UNRESOLVABLE, (message,))


def test_a_missing_class_keeps_the_pod_from_all_nodes() -> None:
    assert verdict(POD, claim("a")) == ["[PreFilter] request r: device class gpu does not exist"]


def test_a_selector_that_does_not_compile_is_an_error_with_its_place() -> None:
    objects = [device_class(), slice_of("s", [device("d")], node="n")]
    (text,) = verdict(POD, claim("a", request("r", "device.foo")), *objects)
    assert text == (
        "claim default/a: selector #0: CEL compile error: compilation failed: "
        "ERROR: <input>:1:7: undefined field 'foo'\n | device.foo\n | ......^"
    )
    broken = device_class("gpu", "device.bar")
    (text,) = verdict(POD, claim("a"), broken, objects[1])
    assert text.startswith("class gpu: selector #0: CEL compile error: compilation failed: ")


def test_one_broken_claim_does_not_hold_others_up() -> None:
    world, profile = world_of(
        make_node("n"),
        device_class(),
        slice_of("s", [device("d")], node="n"),
        claim("bad", request("r", f"{A}.nosuch == 1")),
        claim("good"),
    )
    with pytest.raises(PluginError, match="no such key: nosuch"):
        world.cycle.decide(profile, pod_with("bad", name="first"))
    decision, _ = world.cycle.decide(profile, pod_with("good", name="second"))
    assert isinstance(decision, Bind)


def test_the_search_ends_when_its_time_is_up() -> None:
    # Twenty devices for twenty-four places: every combination is tried before that is clear.
    impossible = claim("a", *(request(f"r{i}", count=4) for i in range(6)))
    offered = slice_of("s", [device(f"d{i}") for i in range(20)], node="n")
    state = cluster([make_node("n")], others=[device_class(), offered, impossible])
    asked = plugin(state.listers)
    ticks = iter(range(10**6))
    asked.handle.pacing.timer = lambda: float(next(ticks)) * 20
    nodes = NodeView(state)
    before = asked.pre_filter(POD, nodes)
    assert isinstance(before, PreFilterResult)
    (reason,) = asked.filter(POD, nodes, before.state).reasons_of(0)
    assert reason.text == "node n: timed out trying to allocate devices"
    assert reason.code is Code.ERROR


def test_a_kept_answer_follows_devices_classes_and_slices() -> None:
    world, profile = world_of(
        make_node("n"), device_class(), slice_of("s", [device("d")], node="n"), claim("a")
    )
    claims = world.state.listers.of(ResourceClaim)

    def placed() -> bool:
        return isinstance(world.cycle.decide(profile, POD)[0], Bind)

    assert placed()
    claims.put(claim("held", status=allocated(("n", "d"))))
    assert not placed()
    claims.put(claim("held"))
    assert placed()
    slices = slice_of("s", [], node="n")
    world.state.listers.of(type(slices)).put(slices)
    assert not placed()
    more = slice_of("s", [device("d")], node="n")
    world.state.listers.of(type(more)).put(more)
    assert placed()
    picky = device_class("gpu", "false")
    world.state.listers.of(type(picky)).put(picky)
    assert not placed()


def test_offline_pods_share_a_claim_and_never_a_device() -> None:
    world, _ = world_of(
        make_node("n"),
        device_class("gpu", extendedResourceName="example.com/gpu"),
        slice_of("s", [device("d"), device("e")], node="n"),
        claim("a"),
        pod_with("a", name="first"),
        pod_with("a", name="second"),
        make_pod("third", requests={"example.com/gpu": "1"}),
        make_pod("fourth", requests={"example.com/gpu": "1"}),
    )
    outcomes = {record.name: record.outcome for record in place_all(world).pods}
    assert outcomes == {
        "first": PodOutcome.PLACED,
        "second": PodOutcome.PLACED,
        "third": PodOutcome.PLACED,
        "fourth": PodOutcome.PENDING,
    }
    used = [
        result.device
        for held in world.state.listers.of(ResourceClaim)
        if held.status.allocation is not None
        for result in held.status.allocation.devices.results
    ]
    assert sorted(used) == ["d", "e"]


def test_earlier_alternatives_score_more() -> None:
    wanted = claim(
        "a",
        first_available("r", request("best", f'{A}.model == "x"'), request("any")),
    )
    world, profile = world_of(
        make_node("m"),
        make_node("n"),
        device_class(),
        slice_of("m", [device("d", attributes={"model": "x"})], node="m"),
        slice_of("n", [device("d", attributes={"model": "y"})], node="n"),
        wanted,
    )
    decision, attempt = world.cycle.decide(profile, POD)
    assert isinstance(decision, Bind)
    assert decision.node_name == "m"
    assert attempt is not None
    assert attempt.scores is not None
    (part,) = [p for p in attempt.scores.parts if p.plugin == "DynamicResources"]
    assert sorted(part.raw.tolist()) == [7, 8]
    assert sorted(part.weighted.tolist()) == [174, 200]


def test_devices_that_only_the_pod_holds_are_given_back() -> None:
    elsewhere = {
        "nodeSelector": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
            ]
        }
    }
    held = claim("a", status=allocated(("gone", "d"), users=[POD.uid], **elsewhere))
    world, profile = world_of(make_node("n"), device_class(), held)
    decision, _ = world.cycle.decide(profile, POD)
    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith(
        "0/1 nodes are available: 1 resourceclaim not available on the node. "
        "deallocation of ResourceClaim completed, "
    )
    asked = profile.plugins["DynamicResources"]
    assert list(asked.work) == [Deallocate(held)]  # type: ignore[attr-defined]


def test_extended_resources_are_left_to_devices_only_where_no_plugin_offers_them() -> None:
    gpus = make_pod("gpus", cpu="1", requests={"example.com/gpu": "1"})
    world, profile = world_of(
        make_node("bare"),
        make_node("devices"),
        make_node("plugin", allocatable={"example.com/gpu": "1"}),
        device_class("gpu", extendedResourceName="example.com/gpu"),
        slice_of("s", [device("d")], node="devices"),
    )
    attempt = world.cycle.filter(profile, gpus)
    assert attempt.outcome is not None
    feasible = {attempt.nodes.node(row).name for row in attempt.outcome.feasible}
    assert feasible == {"devices", "plugin"}


class Hints:
    """What the plugin says about events."""

    def __init__(self, state: ClusterState) -> None:
        self._events = {r.event.resource: r for r in plugin(state.listers).events_to_register()}

    def __call__(
        self, resource: EventResource, pod: Pod, old: ApiObject | None, new: ApiObject | None
    ) -> bool:
        hint = self._events[resource].hint
        assert hint is not None
        return hint(pod, old, new)


def test_hints_about_claims() -> None:
    free, taken = claim("a"), claim("a", status=allocated(("n", "d")))
    other_free, other_taken = claim("b"), claim("b", status=allocated(("n", "e")))
    hints = Hints(cluster(others=[free]))
    kind = EventResource.RESOURCE_CLAIM
    assert hints(kind, POD, None, free) is True
    assert hints(kind, POD, free, taken) is True
    assert hints(kind, POD, free, claim("a", finalizers=["f"])) is False
    assert hints(kind, POD, other_taken, other_free) is True
    assert hints(kind, POD, other_free, other_taken) is False
    assert hints(kind, pod_with("missing"), other_taken, other_free) is False


def test_hints_about_pods() -> None:
    hints = Hints(cluster(others=[claim("a")]))
    kind = EventResource.TARGET_POD
    assert hints(kind, POD, None, POD) is True
    assert hints(kind, POD, None, pod_with("missing")) is False


def test_a_deleted_claim_is_a_hint_if_it_held_devices() -> None:
    hints = Hints(cluster(others=[claim("a")]))
    kind = EventResource.RESOURCE_CLAIM
    assert hints(kind, POD, claim("b", status=allocated(("n", "e"))), None) is True
    assert hints(kind, POD, claim("b"), None) is False


def test_deleted_slices_wake_nobody() -> None:
    for registration in plugin(cluster().listers).events_to_register():
        if registration.event.resource is EventResource.RESOURCE_SLICE:
            assert not registration.event.action & ActionType.DELETE
