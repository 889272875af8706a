"""Devices that count as cpu and memory of their node, behind DRANodeAllocatableResources."""

import asyncio
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.feature_gates import FeatureGates
from moorage.framework.plugin import PreFilterResult
from moorage.framework.status import Code
from moorage.model.devices import ResourceClaim
from moorage.model.meta import Json
from moorage.model.pod import NodeAllocatableResourceClaimStatus, Pod
from moorage.model.quantity import Quantity
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.claim_writes import ClearStatus
from moorage.testing import cluster, make_node, make_pod
from plugins.devices.device_objects import (
    allocated,
    claim,
    device,
    device_class,
    plugin,
    request,
    slice_of,
)
from plugins.devices.fake_api import FakeApi

ON = FeatureGates({"DRANodeAllocatableResources": True})
UNITS = {"allowMultipleAllocations": True, "capacity": {"units": "8"}}


class StatusApi(FakeApi):
    """Remembers what pods' statuses were to tell."""

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.told: list[list[NodeAllocatableResourceClaimStatus]] = []

    async def write_node_allocatable_claims(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        del pod
        self.told.append(list(statuses))


def mapped(name: str = "d0", fields: Json | None = None, **mappings: Json) -> Json:
    taken = {name: {"mapping": mapping} for name, mapping in mappings.items()}
    return device(name, nodeAllocatableResources=taken, **(fields or {}))


def pod_using(*claims: str, name: str = "pod", referenced: bool = True, **spec: object) -> Pod:
    references = [{"name": c, "resourceClaimName": c} for c in claims]
    uses = [{"name": c} for c in claims] if referenced else []
    container = {"name": "main", "resources": {"requests": {"cpu": "500m"}, "claims": uses}}
    whole = {"resourceClaims": references, "containers": [container]}
    return make_pod(name, spec=whole | spec)


def mapping_of(status: NodeAllocatableResourceClaimStatus) -> dict[str, Quantity | None]:
    return {one.name: one.quantity for one in status.mapping}


def allocated_to(uid: str) -> Json:
    """The status of a claim that has the device d0, reserved for a pod."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": "d0"}
    return {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": uid, "uid": uid}],
    }


class Trial:
    """A node with some devices, and what the plugin says of pods there."""

    def __init__(
        self, *devices: Json, gates: FeatureGates = ON, cpu: str = "2", memory: str = "1Gi"
    ) -> None:
        offered = slice_of("s", devices, node="n")
        self.state: ClusterState = cluster(
            [make_node("n", cpu=cpu, memory=memory)],
            others=[device_class(), offered],
        )
        self.plugin: DynamicResources = plugin(self.state.listers, gates)

    def reasons(self, pod: Pod, *claims: ResourceClaim) -> list[tuple[str, Code]]:
        for one in claims:
            self.state.listers.of(ResourceClaim).put(one)
        nodes = NodeView(self.state)
        before = self.plugin.pre_filter(pod, nodes)
        assert isinstance(before, PreFilterResult)
        found = self.plugin.filter(pod, nodes, before.state).reasons_of(0)
        return [(reason.text, reason.code) for reason in found]

    def statuses(self, pod: Pod) -> tuple[NodeAllocatableResourceClaimStatus, ...]:
        return self.plugin.assumed(pod, "n").status.node_allocatable_resource_claim_statuses


def test_a_device_takes_what_its_mapping_says_beside_the_containers() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "1500m"}))
    pod = pod_using("a")
    assert trial.reasons(pod, claim("a")) == []
    (status,) = trial.statuses(pod)
    assert (status.resource_claim_name, status.containers) == ("a", ("main",))
    assert mapping_of(status) == {"cpu": "1500m"}
    assert trial.plugin.assumed(pod, "n").requests.occupied["cpu"] == 2000


def test_a_node_without_enough_left_is_refused() -> None:
    def asked(amount: str) -> list[tuple[str, Code]]:
        trial = Trial(mapped(cpu={"deviceMultiplier": amount}))
        trial.state.add_pod(make_pod("other", cpu="600m", node_name="n"))
        return trial.reasons(pod_using("a"), claim("a"))

    assert asked("900m") == []
    assert asked("901m") == [("Insufficient cpu", Code.UNSCHEDULABLE)]
    assert asked("1501m") == [("Insufficient cpu", Code.UNRESOLVABLE)]


def test_capacity_that_is_shared_is_multiplied() -> None:
    mapping = {"capacityKey": "units", "capacityMultiplier": "128Mi"}
    trial = Trial(mapped("d0", UNITS, memory=mapping))
    pod = pod_using("a")
    wanted = claim("a", request("r", capacity={"requests": {"units": "3"}}))
    assert trial.reasons(pod, wanted) == []
    assert mapping_of(trial.statuses(pod)[0]) == {"memory": str(3 * 128 * 2**20)}
    too_much = claim("a", request("r", capacity={"requests": {"units": "8"}}))
    assert trial.reasons(pod, too_much) == []
    assert Trial(mapped("d0", UNITS, memory=mapping), memory="512Mi").reasons(pod, too_much) == [
        ("Insufficient memory", Code.UNRESOLVABLE)
    ]


def test_a_capacity_key_without_consumed_capacity_is_an_error() -> None:
    trial = Trial(mapped(memory={"capacityKey": "units"}))
    assert trial.reasons(pod_using("a"), claim("a")) == [
        (
            "claim default/a, device d0: ConsumedCapacity is nil, but Capacity key 'units' is set "
            "in NodeAllocatableResources for resource memory",
            Code.ERROR,
        )
    ]


def test_a_claim_that_no_container_uses_counts_all_the_same() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "1"}))
    pod = pod_using("a", referenced=False)
    assert trial.reasons(pod, claim("a")) == []
    assert trial.statuses(pod)[0].containers == ()
    assert trial.plugin.assumed(pod, "n").requests.occupied["cpu"] == 1500


def test_overhead_counts_for_the_pod_and_for_each_container_that_uses_the_device() -> None:
    cost = {"memory": {"overhead": {"perPod": "64Mi", "perContainer": "16Mi"}}}
    trial = Trial(device("d0", nodeAllocatableResources=cost), memory="96Mi")
    uses = {"resources": {"claims": [{"name": "a"}]}}
    pod = pod_using("a", containers=[{"name": "one", **uses}, {"name": "two", **uses}])
    assert trial.reasons(pod, claim("a")) == []
    (status,) = trial.statuses(pod)
    (paid,) = status.overhead
    assert (paid.name, paid.per_pod, paid.per_container) == ("memory", "64Mi", "16Mi")
    assert trial.plugin.assumed(pod, "n").requests.occupied["memory"] == 96 * 2**20
    assert trial.plugin.assumed(pod, "n").requests.incoming["memory"] == 96 * 2**20
    small = Trial(device("d0", nodeAllocatableResources=cost), memory="95Mi")
    assert small.reasons(pod, claim("a")) == [("Insufficient memory", Code.UNRESOLVABLE)]


def test_overhead_may_be_shared_and_each_pod_pays() -> None:
    trial = Trial(device("d0", nodeAllocatableResources={"cpu": {"overhead": {"perPod": "1"}}}))
    pod = pod_using("a")
    assert trial.reasons(pod, claim("a", status=allocated_to("other"))) == []
    assert trial.plugin.assumed(pod, "n").requests.occupied["cpu"] == 1500


def test_limits_for_the_whole_pod_must_cover_devices() -> None:
    huge = "hugepages-2Mi"

    def told(resource: str, whole: str, own: str) -> list[tuple[str, Code]]:
        taken = {resource: {"mapping": {"deviceMultiplier": "1"}}}
        trial = Trial(device("d0", nodeAllocatableResources=taken))
        main = {"limits": {resource: own}, "claims": [{"name": "a"}]}
        containers = [{"name": "main", "resources": main}]
        limits = {"limits": {resource: whole}}
        return trial.reasons(pod_using("a", containers=containers, resources=limits), claim("a"))

    assert told("cpu", "1500m", "500m") == []
    assert told("cpu", "1400m", "500m") == [
        (
            "pod level limit for cpu is insufficient to cover the limit and DRA overhead for "
            "container main",
            Code.UNRESOLVABLE,
        )
    ]
    assert told(huge, "4", "4") == [
        (
            f"pod level limit for {huge} is insufficient to cover the aggregated container and "
            "node-allocatable DRA limits",
            Code.UNRESOLVABLE,
        )
    ]


def test_requests_for_the_whole_pod_must_cover_devices() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "1"}))
    pod = pod_using("a", resources={"requests": {"cpu": "1"}})
    assert trial.reasons(pod, claim("a")) == [
        (
            "pod level request for cpu is insufficient to cover the aggregated container and "
            "node-allocatable DRA requests",
            Code.UNRESOLVABLE,
        )
    ]
    enough = pod_using("a", resources={"requests": {"cpu": "1500m"}})
    assert trial.reasons(enough, claim("a")) == []
    assert trial.plugin.assumed(enough, "n").requests.occupied["cpu"] == 1500


def test_a_claim_of_a_mapped_device_serves_one_pod_only() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "100m"}))
    pod = pod_using("a")
    assert trial.reasons(pod, claim("a", status=allocated_to("other"))) == [
        (
            "node allocatable resource claim a has a mapped device and cannot be shared across "
            "pods",
            Code.UNRESOLVABLE,
        )
    ]
    assert trial.reasons(pod, claim("a", status=allocated_to(pod.uid))) == []


def test_without_the_gate_mappings_mean_nothing() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "99"}), gates=FeatureGates())
    pod = pod_using("a")
    assert trial.reasons(pod, claim("a")) == []
    assert trial.plugin.assumed(pod, "n") is pod


def test_the_status_is_written_before_binding_and_cleared_if_that_fails() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "1"}))
    pod, wanted = pod_using("a"), claim("a")
    assert trial.reasons(pod, wanted) == []
    api = StatusApi(trial.state)
    assert trial.plugin.reserve(pod, "n") is None
    assert asyncio.run(trial.plugin.pre_bind(pod, "n", api)) is None
    assert [mapping_of(status) for status in api.told[0]] == [{"cpu": "1"}]
    trial.plugin.unreserve(pod, "n")
    assert ClearStatus(pod) in trial.plugin.work
    asyncio.run(trial.plugin.flush(api))
    assert api.told[1:] == [[]]


@given(
    st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 1000)), min_size=1, max_size=6),
    st.integers(500, 4000),
)
def test_no_node_gives_more_than_it_has(pods: list[tuple[int, int]], cpu: int) -> None:
    devices = [
        mapped(f"d{i}", cpu={"deviceMultiplier": f"{drawn}m"}) for i, (drawn, _) in enumerate(pods)
    ]
    trial = Trial(*devices, cpu=f"{cpu}m")
    for i, (_, asked) in enumerate(pods):
        selector = f'device.driver == "gpu.example.com" && {i} == {i}'
        pod = make_pod(
            f"p{i}",
            spec={
                "resourceClaims": [{"name": "c", "resourceClaimName": f"c{i}"}],
                "containers": [
                    {
                        "name": "main",
                        "resources": {"requests": {"cpu": f"{asked}m"}, "claims": [{"name": "c"}]},
                    }
                ],
            },
        )
        free = cpu - int(NodeView(trial.state).requested("cpu")[0])
        if asked > free:
            continue  # NodeResourcesFit would have refused it
        if not trial.reasons(pod, claim(f"c{i}", request("r", selector))):
            trial.state.assume(trial.plugin.assumed(pod, "n"), "n")
            trial.plugin.reserve(pod, "n")
        nodes = NodeView(trial.state)
        assert int(nodes.requested("cpu")[0]) <= cpu


def test_an_allocated_device_that_is_gone_is_an_error_beside_one_that_counts() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "100m"}))
    held = claim("a", status=allocated(("n", "d0"), ("n", "gone")))
    assert trial.reasons(pod_using("a"), held) == [
        (
            "claim default/a, device gone, driver gpu.example.com: device gone not found in pool n "
            "for driver gpu.example.com",
            Code.ERROR,
        )
    ]


def test_overhead_is_nothing_that_requests_for_the_whole_pod_have_to_cover() -> None:
    trial = Trial(mapped(cpu={"deviceMultiplier": "500m"}))
    pod = pod_using("a", resources={"requests": {"cpu": "1"}}, overhead={"cpu": "250m"})
    assert trial.reasons(pod, claim("a")) == []
