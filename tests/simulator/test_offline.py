"""All waiting pods placed one after another."""

import warnings
from typing import Any, ClassVar

import msgspec
import pytest

from moorage.config import default_config, load_config
from moorage.engine.clock import VirtualClock
from moorage.framework.plugin import NodeFilterPlugin, ReservePlugin
from moorage.framework.status import Reason, Status
from moorage.model.decode import decode_object
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.offline import PodOutcome, PodRecord, Schedule, place_all
from moorage.simulator.world import World
from moorage.testing import make_node, make_pod


def place(*objects: ApiObject) -> tuple[World, Schedule]:
    world = World(default_config(), clock=VirtualClock(0))
    world.add_all(objects)
    return world, place_all(world)


def records(*objects: ApiObject) -> dict[str, PodRecord]:
    return {record.name: record for record in place(*objects)[1].pods}


def budget(allowed: int) -> PodDisruptionBudget:
    decoded = decode_object(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "budget", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}},
            "status": {"disruptionsAllowed": allowed},
        },
        "test",
    )
    assert isinstance(decoded, PodDisruptionBudget)
    return decoded


def affinity_to(app: str) -> dict[str, Any]:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_important_pods_come_first_then_older_ones_then_reading_order() -> None:
    def born(second: int) -> dict[str, Any]:
        return {"creationTimestamp": f"2026-01-01T00:00:{second:02}Z"}

    _, schedule = place(
        make_node(),
        make_pod("unborn-1"),
        make_pod("young", metadata=born(30)),
        make_pod("unborn-2"),
        make_pod("old", metadata=born(1)),
        make_pod("important", priority=5, metadata=born(59)),
    )
    assert [pod.name for pod in schedule.pods] == [
        "important",
        "old",
        "young",
        "unborn-1",
        "unborn-2",
    ]


def test_each_pod_sees_the_ones_before_it() -> None:
    result = records(
        make_node("a", cpu="1"),
        make_node("b", cpu="1"),
        *(make_pod(f"p{i}", cpu="1") for i in range(3)),
    )
    assert {result["p0"].node, result["p1"].node} == {"a", "b"}
    assert result["p2"].outcome is PodOutcome.PENDING
    assert result["p2"].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_finished_pods_are_ignored_and_assigned_ones_take_room() -> None:
    result = records(
        make_node("a", cpu="2"),
        make_pod("done", cpu="2", node_name="a", status={"phase": "Succeeded"}),
        make_pod("failed", cpu="2", status={"phase": "Failed"}),
        make_pod("running", cpu="1", node_name="a"),
        make_pod("one", cpu="1"),
        make_pod("two", cpu="1"),
    )
    assert list(result) == ["one", "two"]
    assert result["one"].node == "a"
    assert result["two"].outcome is PodOutcome.PENDING


def test_preemption_evicts_and_takes_the_place() -> None:
    world, schedule = place(
        make_node("a", cpu="2"),
        make_pod("victim", cpu="2", node_name="a", priority=1),
        make_pod("important", cpu="2", priority=10),
    )
    (record,) = schedule.pods
    assert (record.outcome, record.node) == (PodOutcome.PLACED, "a")
    assert record.victims == ("default/victim",)
    assert [msgspec.structs.astuple(gone) for gone in schedule.evictions] == [
        ("default/victim", "a", "default/important")
    ]
    assert [pod.name for pod, _ in world.state.placed_pods()] == ["important"]


def test_an_eviction_uses_the_budget_up() -> None:
    world, schedule = place(
        budget(1),
        make_node("a", cpu="2"),
        make_pod("victim", cpu="2", node_name="a", labels={"app": "web"}),
        make_pod("important", cpu="2", priority=10),
    )
    assert len(schedule.evictions) == 1
    (left,) = world.state.listers.of(PodDisruptionBudget)
    assert left.status.disruptions_allowed == 0


def test_pods_that_fit_nowhere_are_tried_again_while_others_find_a_place() -> None:
    result = records(
        make_node("a"),
        make_pod("follower-2", priority=9, labels={"app": "two"}, spec=affinity_to("one")),
        make_pod("follower-1", priority=8, labels={"app": "one"}, spec=affinity_to("zero")),
        make_pod("leader", priority=1, labels={"app": "zero"}),
        make_pod("lonely", priority=7, labels={"app": "x"}, spec=affinity_to("nobody")),
    )
    assert [name for name, record in result.items() if record.node] == [
        "follower-2",
        "follower-1",
        "leader",
    ]
    assert "node(s) didn't match pod affinity rules" in result["lonely"].message


def test_a_pod_placed_in_this_run_can_be_evicted_in_it() -> None:
    result = records(
        make_node("a", cpu="2"),
        make_pod("follower", cpu="1", priority=9, spec=affinity_to("zero")),
        make_pod("leader", priority=9, labels={"app": "zero"}),
        make_pod("filler", cpu="2", priority=1),
    )
    assert result["follower"].node == "a"
    assert result["follower"].victims == ("default/filler",)
    assert result["filler"].outcome is PodOutcome.EVICTED
    assert result["filler"].message == "evicted from a to make room for default/follower"


def test_gates_other_schedulers_and_deletion_keep_pods_out() -> None:
    result = records(
        make_node("a"),
        make_pod("gated", spec={"schedulingGates": [{"name": "permit"}]}),
        make_pod("foreign", spec={"schedulerName": "tug"}),
        make_pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    assert result["gated"].outcome is PodOutcome.GATED
    assert result["gated"].message == "waiting for scheduling gates: [permit]"
    assert result["foreign"].outcome is PodOutcome.NOT_RESPONSIBLE
    assert "schedulerName is tug, not default-scheduler" in result["foreign"].message
    assert result["leaving"].outcome is PodOutcome.DELETING


def test_nominated_pods_keep_their_place_from_less_important_ones() -> None:
    result = records(
        make_node("a", cpu="2"),
        make_node("b", cpu="1"),
        make_pod("late", cpu="2", priority=5, status={"nominatedNodeName": "a"}),
        make_pod(
            "early", cpu="1", priority=5, metadata={"creationTimestamp": "2026-01-01T00:00:00Z"}
        ),
    )
    assert result["early"].node == "b"
    assert result["late"].node == "a"


class Kraken(NodeFilterPlugin):
    name = "Kraken"

    def filter_node(self, pod: Pod, node: Any) -> Reason | None:
        if pod.name == "doomed":
            raise RuntimeError("release me")
        return None


@pytest.fixture
def world_with_kraken() -> World:
    registry = in_tree_registry()
    registry.register(Kraken)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {filter: {enabled: [{name: Kraken}]}}}]",
        "test",
    )
    return World(config, registry=registry)


def test_a_plugin_that_fails_for_one_pod_spares_the_others(world_with_kraken: World) -> None:
    world_with_kraken.add_all([make_node("a"), make_pod("doomed"), make_pod("lucky")])
    doomed, lucky = place_all(world_with_kraken).pods
    assert doomed.outcome is PodOutcome.ERROR
    assert "Kraken" in doomed.message
    assert "release me" in doomed.message
    assert lucky.node == "a"


def test_ties_do_not_depend_on_the_order_of_the_file() -> None:
    names = ["c", "a", "b"]
    nodes = [make_node(name) for name in names]
    assert records(*nodes, make_pod("p"))["p"].node == "a"
    assert records(make_pod("p"), *reversed(nodes))["p"].node == "a"


class Leak(ReservePlugin):
    name = "Leak"
    undone: ClassVar[list[str]] = []

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        if pod.name == "doomed":
            raise RuntimeError("water")
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        self.undone.append(pod.name)


def test_a_reservation_that_fails_takes_no_room() -> None:
    registry = in_tree_registry()
    registry.register(Leak)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {reserve: {enabled: [{name: Leak}]}}}]",
        "test",
    )
    world = World(config, registry=registry)
    world.add_all(
        [make_node("a", cpu="1"), make_pod("doomed", cpu="1"), make_pod("lucky", cpu="1")]
    )
    doomed, lucky = place_all(world).pods
    assert (doomed.outcome, lucky.node) == (PodOutcome.ERROR, "a")
    assert Leak.undone == ["doomed"]


def test_an_image_of_any_size_can_be_scored() -> None:
    images = [{"names": ["big:1"], "sizeBytes": 2**63 - 1}]
    status = {"allocatable": {"cpu": "1", "pods": "9"}, "images": images}
    node, pod = (
        decode_object({"apiVersion": "v1", **data}, "test")
        for data in (
            {"kind": "Node", "metadata": {"name": "a"}, "status": status},
            {
                "kind": "Pod",
                "metadata": {"name": "p", "uid": "p"},
                "spec": {"containers": [{"name": "c", "image": "big:1"}] * 2},
            },
        )
    )
    other = make_node("b")
    assert isinstance(node, ApiObject)
    assert isinstance(pod, ApiObject)
    assert records(node, other, pod)["p"].node == "a"


def test_sums_beyond_64_bits_wrap_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = str(2**62)
        on = [make_pod(f"p{n}", node_name="a", memory=half) for n in range(3)]
        assert records(make_node("a"), *on, make_pod("late"))["late"].message == ""
