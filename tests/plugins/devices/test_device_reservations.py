"""DynamicResources after a node was chosen: promises, writes, conflicts, and taking back."""

import asyncio

import msgspec
import pytest

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.feature_gates import FeatureGates
from moorage.errors import ApiError
from moorage.framework.plugin import PreFilterResult
from moorage.framework.status import Code, Skip, Status
from moorage.model.devices import DELETE_PROTECTION, ResourceClaim
from moorage.model.meta import ApiObject, Condition, Json
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.pod_state import PodState
from moorage.testing import cluster, make_node, make_pod
from plugins.devices.device_objects import (
    allocated,
    claim,
    device,
    device_class,
    plugin,
    pod_with,
    request,
    slice_of,
)
from plugins.devices.fake_api import FakeApi

CONFLICT = ApiError(409, "Conflict", "the object has been modified")
BROKEN = ApiError(500, "InternalError", "etcd is away")


class Scene:
    """A node with devices, claims, and an API."""

    def __init__(self, *others: ApiObject, devices: int = 2, shows: bool = True) -> None:
        offered = [device(f"d{i}") for i in range(devices)]
        self.state: ClusterState = cluster(
            [make_node("n")],
            others=[device_class(), slice_of("s", offered, node="n"), *others],
        )
        self.plugin: DynamicResources = plugin(self.state.listers)
        self.api = FakeApi(self.state, shows=shows)

    def ask(self, pod: Pod) -> PreFilterResult[PodState] | Skip | Status | list[str]:
        """What keeps the pod from the node; an empty list means nothing."""
        nodes = NodeView(self.state)
        before = self.plugin.pre_filter(pod, nodes)
        if not isinstance(before, PreFilterResult):
            return before
        verdicts = self.plugin.filter(pod, nodes, before.state)
        return [reason.text for reason in verdicts.reasons_of(0)]

    def reserve(self, pod: Pod) -> None:
        assert self.ask(pod) == []
        assert self.plugin.reserve(pod, "n") is None

    def pre_bind(self, pod: Pod) -> str | None:
        status = asyncio.run(self.plugin.pre_bind(pod, "n", self.api))
        assert status is None or status.code is Code.ERROR
        return None if status is None else status.message

    def flush(self) -> list[str]:
        return asyncio.run(self.plugin.flush(self.api))

    def claim(self, name: str = "a") -> ResourceClaim:
        found = self.plugin.tracker.get("default", name)
        assert found is not None
        return found


FIRST, SECOND = pod_with("a", name="first"), pod_with("b", name="second")


def test_promised_devices_are_not_offered_to_the_next_pod() -> None:
    scene = Scene(claim("a"), claim("b"), devices=1)
    scene.reserve(FIRST)
    assert scene.ask(SECOND) == ["cannot allocate all claims"]
    scene.plugin.unreserve(FIRST, "n")
    assert scene.ask(SECOND) == []


def test_profiles_share_the_promises() -> None:
    scene = Scene(claim("a"), claim("b"), devices=1)
    scene.reserve(FIRST)
    scene.plugin = plugin(scene.state.listers)
    assert scene.ask(SECOND) == ["cannot allocate all claims"]


def test_a_claim_being_allocated_makes_other_users_wait() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    answer = scene.ask(pod_with("a", name="other"))
    assert answer == Status(
        Code.UNRESOLVABLE,
        ("resource claim default/a is in the process of being allocated",),
    )


def test_unreserve_may_come_twice_or_without_reserve() -> None:
    scene = Scene(claim("a"))
    scene.plugin.unreserve(FIRST, "n")
    scene.reserve(FIRST)
    scene.plugin.unreserve(FIRST, "n")
    scene.plugin.unreserve(FIRST, "n")
    assert not scene.plugin.has_work


def test_finalizer_allocation_and_reservation_are_written() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    assert scene.api.written == ["finalizers a", "status a"]
    stored = scene.api.stored["default/a"]
    assert stored.metadata.finalizers == (DELETE_PROTECTION,)
    assert stored.reserved_by(FIRST.uid)
    allocation = stored.status.allocation
    assert allocation is not None
    assert [r.device for r in allocation.devices.results] == ["d0"]
    assert allocation.allocation_timestamp == "1970-01-01T00:16:40Z"
    selector = allocation.available_nodes
    assert selector is not None
    assert selector.matches({}, "n")
    assert not selector.matches({}, "m")


def test_what_was_written_counts_before_the_watch_shows_it() -> None:
    scene = Scene(claim("a"), claim("b"), devices=1, shows=False)
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    assert scene.plugin.tracker.pending_allocation("uid-a") is None
    assert scene.ask(SECOND) == ["cannot allocate all claims"]
    scene.api.show_all()
    assert scene.ask(SECOND) == ["cannot allocate all claims"]


def test_an_allocated_claim_is_only_reserved() -> None:
    scene = Scene(claim("a", status=allocated(("n", "d0"), users=["other"])))
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    assert scene.api.written == ["status a"]
    assert [user.uid for user in scene.claim().status.reserved_for] == ["other", FIRST.uid]


def test_a_claim_reserved_already_is_left_alone() -> None:
    scene = Scene(claim("a", status=allocated(("n", "d0"), users=[FIRST.uid])))
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    assert scene.api.written == []


def test_a_conflict_is_tried_again_with_the_latest_claim() -> None:
    scene = Scene(claim("a"))
    scene.api.refuse["status"] = [CONFLICT, CONFLICT]
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    assert scene.claim().reserved_by(FIRST.uid)


@pytest.mark.parametrize(
    ("verb", "error", "message"),
    [
        ("finalizers", BROKEN, "add finalizer to claim default/a: etcd is away"),
        ("status", BROKEN, "add allocation and reservation to claim default/a: etcd is away"),
        (
            "status",
            CONFLICT,
            "add allocation and reservation to claim default/a: the object has been modified",
        ),
    ],
)
def test_a_refusal_ends_the_promise(verb: str, error: ApiError, message: str) -> None:
    scene = Scene(claim("a"), claim("b"), devices=1)
    scene.api.refuse[verb] = [error] * 5
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) == message
    scene.plugin.unreserve(FIRST, "n")
    assert scene.ask(SECOND) == []


def test_claims_that_changed_in_between_are_not_overwritten() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    scene.api.refuse["finalizers"] = [CONFLICT]
    scene.api.when_time_passes = lambda api: api.show(
        msgspec.structs.replace(
            api.stored["default/a"], status=claim("a", status=allocated(("n", "d1"))).status
        )
    )
    assert scene.pre_bind(FIRST) == "claim default/a got allocated elsewhere in the meantime"


def test_a_claim_deleted_in_between_is_not_written() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    scene.api.refuse["finalizers"] = [CONFLICT]

    def delete(api: FakeApi) -> None:
        api.show(claim("a", deletionTimestamp="2026-01-01T00:00:00Z"))

    scene.api.when_time_passes = delete
    assert scene.pre_bind(FIRST) == "claim default/a got deleted in the meantime"


def test_a_written_reservation_is_taken_back() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    scene.plugin.unreserve(FIRST, "n")
    assert scene.plugin.has_work
    assert scene.flush() == []
    assert scene.api.written[-1] == f"release {FIRST.uid} a"


def test_configuration_of_class_and_claim_reaches_the_driver() -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"mode": ""}}
    fast = device_class("fast", config=[{"opaque": opaque}])
    asked = claim(
        "a",
        request("r", deviceClassName="fast"),
        request("s", deviceClassName="fast"),
        config=[{"opaque": opaque}, {"requests": ["s"], "opaque": opaque}],
    )
    scene = Scene(fast, asked)
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    allocation = scene.claim().status.allocation
    assert allocation is not None
    config = [(c.source, c.requests, c.opaque) for c in allocation.devices.config]
    assert config == [
        ("FromClass", (), opaque),
        ("FromClaim", (), opaque),
        ("FromClaim", ("s",), opaque),
    ]


class Prepared(Scene):
    """The node's device has to be prepared before a pod can be bound."""

    def __init__(self) -> None:
        super().__init__(claim("a"), devices=0)
        late = device("late", bindingConditions=["Ready"], bindingFailureConditions=["Broken"])
        offered = slice_of("s", [late], node="n")
        self.state.listers.of(type(offered)).put(offered)

    def driver_says(self, condition: str) -> None:
        def act(api: FakeApi) -> None:
            current = api.stored["default/a"]
            reported = claim(
                "a",
                status={
                    "devices": [
                        {
                            "driver": "gpu.example.com",
                            "pool": "n",
                            "device": "late",
                            "conditions": [{"type": condition, "status": "True", "reason": "Why"}],
                        }
                    ]
                },
            ).status.devices
            assert isinstance(reported[0].conditions[0], Condition)
            status = msgspec.structs.replace(current.status, devices=reported)
            api.show(msgspec.structs.replace(current, status=status))

        self.api.when_time_passes = act


def test_binding_waits_until_devices_are_prepared() -> None:
    scene = Prepared()
    scene.reserve(FIRST)
    scene.driver_says("Ready")
    assert scene.pre_bind(FIRST) is None
    assert scene.api.time == 1005.0
    assert scene.api.events == [
        "BindingConditionsPending: waiting for binding conditions for device on node n"
    ]


def test_a_device_that_cannot_be_prepared_fails_the_binding() -> None:
    scene = Prepared()
    scene.reserve(FIRST)
    scene.driver_says("Broken")
    assert scene.pre_bind(FIRST) == 'device binding failed: claim=a, reason=Why, message=""'
    assert scene.ask(FIRST) == ["resourceclaim not available on the node"]


def test_waiting_for_devices_ends() -> None:
    scene = Prepared()
    scene.reserve(FIRST)
    message = scene.pre_bind(FIRST)
    assert message is not None
    assert message.startswith("device binding timeout")
    assert scene.api.time <= 1605.0


EXTENDED = make_pod("gpus", requests={"example.com/gpu": "2"})


def test_the_claim_for_extended_resources_is_made_when_binding() -> None:
    scene = Scene(device_class("gpu", extendedResourceName="example.com/gpu"))
    scene.reserve(EXTENDED)
    assert scene.pre_bind(EXTENDED) is None
    name = "gpus-extended-resources-abc"
    assert scene.api.written == [
        "create gpus-extended-resources-",
        f"finalizers {name}",
        f"status {name}",
        f"extended {name}",
    ]
    assert scene.api.mappings == [("main", "example.com/gpu", "container-0-request-0")]
    stored = scene.claim(name)
    assert stored.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert stored.status.allocation is not None
    assert len(stored.status.allocation.devices.results) == 2
    assert scene.ask(pod_with(name="x")) is Skip.SKIP
    scene.plugin.unreserve(EXTENDED, "n")
    assert scene.flush() == []
    assert scene.api.written[-2:] == [f"finalizers {name}", f"delete {name}"]


def test_a_claim_that_cannot_be_made_leaves_nothing_behind() -> None:
    scene = Scene(device_class("gpu", extendedResourceName="example.com/gpu"))
    scene.api.refuse["create"] = [BROKEN]
    scene.reserve(EXTENDED)
    assert scene.pre_bind(EXTENDED) == (
        "create claim for extended resources default/: etcd is away"
    )
    scene.plugin.unreserve(EXTENDED, "n")
    assert not scene.plugin.has_work
    assert scene.ask(EXTENDED) == []


def test_what_is_allocated_meanwhile_is_not_promised_again() -> None:
    scene = Scene(claim("a"))
    scene.reserve(FIRST)
    promised = scene.plugin.tracker.pending_allocation("uid-a")
    assert promised is not None
    assert scene.pre_bind(FIRST) is None
    assert scene.plugin.tracker.pending_allocation("uid-a") is None
    late = msgspec.structs.replace(scene.claim())
    scene.plugin.tracker.add_in_flight(late)
    assert scene.plugin.tracker.pending_allocation("uid-a") is None


def test_a_promise_ends_when_the_whole_pod_is_bound_or_gives_it_back() -> None:
    both = pod_with("a", "b", name="both")
    scene = Scene(claim("a", finalizers=[DELETE_PROTECTION]), claim("b"))
    scene.reserve(both)
    scene.api.refuse["finalizers"] = [BROKEN]
    assert scene.pre_bind(both) == "add finalizer to claim default/b: etcd is away"
    assert scene.plugin.tracker.pending_allocation("uid-a") is not None
    scene.plugin.unreserve(both, "n")
    assert scene.plugin.tracker.pending_allocation("uid-a") is None
    assert scene.plugin.tracker.pending_allocation("uid-b") is None


def test_a_configuration_of_several_requests_is_handed_over_once() -> None:
    opaque = {"driver": "gpu.example.com", "parameters": {"mode": ""}}
    some: list[Json] = [{"requests": ["r", "s"], "opaque": opaque}, {"requests": ["r", "s", "t"]}]
    asked = claim("a", request("r"), request("s"), request("t"), config=some)
    scene = Scene(asked, devices=3)
    scene.reserve(FIRST)
    assert scene.pre_bind(FIRST) is None
    allocation = scene.claim().status.allocation
    assert allocation is not None
    assert [c.requests for c in allocation.devices.config] == [("r", "s"), ()]


@pytest.mark.parametrize(("gate", "skipped"), [(False, ()), (True, ("Prepare",))])
def test_what_the_node_need_not_do_for_a_device_is_handed_on(
    gate: bool, skipped: tuple[str, ...]
) -> None:
    gates = FeatureGates({"DRAOptionalNodeOperations": gate})
    offered = slice_of("t", [device("d")], node="m", skipNodeOperations=["Prepare"])
    state = cluster([make_node("m")], others=[device_class(), offered, claim("a")])
    asked = plugin(state.listers, gates)

    def reasons() -> list[str]:
        nodes = NodeView(state)
        before = asked.pre_filter(FIRST, nodes)
        assert isinstance(before, PreFilterResult)
        return [reason.text for reason in asked.filter(FIRST, nodes, before.state).reasons_of(0)]

    for _ in range(3):
        assert reasons() == (["cannot allocate all claims"] if gate else [])
    state.add_node(make_node("m", status={"declaredFeatures": ["DRAOptionalNodeOperations"]}))
    assert reasons() == []
    assert asked.reserve(FIRST, "m") is None
    promised = asked.tracker.pending_allocation("uid-a")
    assert promised is not None
    assert [r.skip_node_operations for r in promised.devices.results] == [skipped]
