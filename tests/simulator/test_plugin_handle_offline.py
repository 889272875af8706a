"""What a plugin reaches through its handle in a cluster in files, which it may change."""

from typing import Any

import pytest

from berths import BERTHS, NeedsBerth
from co_scheduling import CoScheduling
from harbour_log import HarbourLog
from moorage.config import load_config
from moorage.engine.clock import VirtualClock
from moorage.errors import ApiError, DecodeError, InputError
from moorage.framework.plugin import (
    ApiPort,
    BindPlugin,
    Plugin,
    PreBindPlugin,
    QueueSortPlugin,
    ReservePlugin,
)
from moorage.framework.status import Code, Status
from moorage.kube.resources import RESOURCES
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.api import EVENTS, SimulatedClient
from moorage.simulator.manifests import Manifests
from moorage.simulator.offline import PodOutcome, Schedule, place_all
from moorage.simulator.world import World
from moorage.testing import make_node, make_pod

GROUP = {"pod-group": "crew", "min-available": "3"}


def world_with(*plugins: type[Plugin], objects: tuple[ApiObject, ...] = ()) -> World:
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    enabled = ", ".join(f"{{name: {plugin.name}}}" for plugin in plugins)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]",
        "test",
    )
    world = World(config, registry=registry, clock=VirtualClock(1000.0))
    world.add_all(objects)
    return world


def outcomes(schedule: Schedule) -> dict[str, str]:
    return {pod.name: pod.node or pod.message for pod in schedule.pods}


def berth(name: str, node_name: str, length: int = 100, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "harbour.example/v1",
        "kind": "Berth",
        "metadata": {"name": name, **metadata},
        "spec": {"node": node_name, "length": length},
    }


def with_others(world: World, *bodies: dict[str, Any]) -> dict[str, int]:
    return world.add_manifests(Manifests(others=tuple((body, "test") for body in bodies)))


def test_a_group_is_placed_as_a_whole() -> None:
    crew = tuple(make_pod(f"crew-{i}", labels=GROUP, cpu="1") for i in (1, 2, 3))
    world = world_with(CoScheduling, objects=(make_node("n1", cpu="4"), *crew))
    assert outcomes(place_all(world)) == dict.fromkeys(("crew-1", "crew-2", "crew-3"), "n1")
    assert not len(world.handle.waiting)


def test_a_group_that_does_not_fit_leaves_its_places_to_others() -> None:
    pods = [make_pod(f"crew-{i}", labels=GROUP, cpu="1500m") for i in (1, 2, 3)]
    objects = (make_node("n1", cpu="4"), *pods, make_pod("other", cpu="3"))
    found = outcomes(place_all(world_with(CoScheduling, objects=objects)))
    assert found.pop("other") == "n1"
    assert "0/1 nodes are available" in found.pop("crew-3")
    assert set(found.values()) == {
        "0/1 nodes are available: 1 rejected due to timeout after waiting 1m0s at plugin "
        "CoScheduling.",
    }


def test_objects_of_any_kind_are_there_for_the_plugins_that_look_them_up() -> None:
    ship = make_pod("ship", labels={"ship-length": "80"})
    world = world_with(NeedsBerth, objects=(make_node("n1"), make_node("n2"), ship))
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    assert with_others(world, berth("b", "n2"), deployment) == {"Deployment": 1}
    assert outcomes(place_all(world)) == {"ship": "n2"}


def test_a_definition_says_how_a_kind_is_called_and_whether_it_has_a_namespace() -> None:
    world = world_with(NeedsBerth)
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "berthage.harbour.example"},
        "spec": {
            "group": "harbour.example",
            "scope": "Cluster",
            "names": {"plural": "berthage", "kind": "Berth"},
        },
    }
    assert with_others(world, berth("b", "n2"), definition) == {"Berth": 1}
    assert not len(world.state.listers.of(BERTHS))
    found = world.state.listers.of("berthage.v1.harbour.example").get("b")
    assert found is not None
    assert found.namespace == ""


def test_an_object_that_is_looked_up_must_be_sound() -> None:
    bad = {**berth("b", "n1"), "metadata": {"name": "b", "labels": 5}}
    assert with_others(world_with(CoScheduling), bad) == {"Berth": 1}
    wrong = "^test: Berth b: metadata.labels must be a mapping, not the number 5$"
    with pytest.raises(DecodeError, match=wrong):
        with_others(world_with(NeedsBerth), bad)


def test_what_a_plugin_writes_changes_the_cluster() -> None:
    ship = make_pod("ship", labels={"ship-length": "80"})
    world = world_with(NeedsBerth, HarbourLog, objects=(make_node("n1"), ship))
    with_others(world, berth("north", "n1"))
    place_all(world)
    (north,) = world.state.listers.of(BERTHS)
    assert north.content["status"] == {"ship": "ship", "scheduler": "default-scheduler"}
    (event,) = world.state.listers.of(EVENTS)
    assert event.content == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "ship.1", "namespace": "default"},
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "ship",
            "uid": ship.uid,
        },
        "type": "Normal",
        "reason": "Moored",
        "action": "Scheduling",
        "note": "ship lies in berth north",
        "reportingController": "default-scheduler",
    }


class MakesRoom(ReservePlugin, PreBindPlugin, BindPlugin):
    """Adds a node for later, prepares, refuses a pod at the last moment, and binds the others."""

    name = "MakesRoom"

    def reserve(self, pod: Pod, node_name: str) -> None:
        if pod.name == "first":
            self.handle.run_later(self.add_node())

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Nothing to take back."""

    async def add_node(self) -> None:
        node = await self.handle.client.get("Node", "n1")
        await self.handle.client.create("Node", {**node, "metadata": {"name": "n2"}})

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        await api.sleep(3600)
        if pod.name == "late":
            return Status(Code.UNSCHEDULABLE, ("the tide is out",))
        api.report(pod, "Prepared", f"at {api.now():g} for {node_name}")
        return None

    async def bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        await api.bind(pod, node_name)
        await self.handle.client.patch(
            Pod, pod.name, {"metadata": {"labels": {"bound": "yes"}}}, pod.namespace
        )
        return None


def test_binding_plugins_run_and_what_is_left_for_later_helps_the_next_pod() -> None:
    pods = (make_pod("first", cpu="2"), make_pod("second", cpu="2"), make_pod("late"))
    world = world_with(MakesRoom, objects=(make_node("n1", cpu="2"), *pods))
    found = outcomes(place_all(world))
    assert (found["first"], found["second"]) == ("n1", "n2")
    assert found["late"] == "the tide is out"
    assert world.state.node_of(pods[2]) is None
    events = [event.content["note"] for event in world.state.listers.of(EVENTS)]
    assert events == ["at 1000 for n1", "at 1000 for n2"]


class Breaks(PreBindPlugin, ReservePlugin):
    """Fails in the point that a pod is named after."""

    name = "Breaks"

    def _fail(self, pod: Pod, point: str) -> None:
        if pod.name == point:
            raise KeyError(point)

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        self._fail(pod, "reserve")
        return Status(Code.ERROR, ("no room",)) if pod.name == "refused" else None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        pass

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        self._fail(pod, "pre-bind")
        return None


class BreaksOffline(Breaks):
    name = "BreaksOffline"

    def pre_bind_offline(self, pod: Pod) -> None:
        self._fail(pod, "offline")


@pytest.mark.parametrize(
    ("plugin", "pod", "message"),
    [
        (Breaks, "reserve", "running Reserve plugin \"Breaks\": KeyError: 'reserve' "),
        (Breaks, "refused", 'running Reserve plugin "Breaks": no room'),
        (Breaks, "pre-bind", "running PreBind plugin \"Breaks\": KeyError: 'pre-bind' "),
        (
            BreaksOffline,
            "offline",
            "running PreBind plugin \"BreaksOffline\": KeyError: 'offline' ",
        ),
    ],
)
def test_a_fault_on_the_way_to_a_node_is_an_error_of_that_pod(
    plugin: type[Plugin], pod: str, message: str
) -> None:
    pods = (make_pod(pod), make_pod("other"))
    world = world_with(plugin, objects=(make_node("n1"), *pods))
    failed, placed = place_all(world).pods
    assert (failed.outcome, placed.outcome) == (PodOutcome.ERROR, PodOutcome.PLACED)
    assert failed.message.startswith(message)


class OddOrder(QueueSortPlugin):
    name = "OddOrder"

    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        return {"a": 2, "b": 1}[pod.name]


def test_a_pod_without_a_sort_key_comes_last_and_is_placed() -> None:
    registry = in_tree_registry()
    registry.register(OddOrder)
    config = load_config(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {queueSort: {enabled: [{name: OddOrder}],"
        " disabled: [{name: '*'}]}}}]",
        "test",
    )
    world = World(config, registry=registry)
    world.add_all((make_node("n1"), *map(make_pod, ("odd", "a", "b"))))
    assert [pod.name for pod in place_all(world).pods] == ["b", "a", "odd"]


async def _changed(client: SimulatedClient) -> dict[str, Any]:
    await client.create(BERTHS, berth("a", "n1"), "x")
    await client.create(BERTHS, berth("b", "n1"), "y")
    await client.patch(BERTHS, "a", {"metadata": {"labels": {"k": "v"}}, "spec": None}, "x")
    found: dict[str, Any] = {
        "chosen": [one["metadata"]["name"] for one in await client.list(BERTHS, labels={"k": "v"})],
        "in y": [one["metadata"]["name"] for one in await client.list(BERTHS, "y")],
        "seen": [event.type async for event in client.watch(BERTHS)],
        "a": await client.get(BERTHS, "a", "x"),
    }
    await client.delete(BERTHS, "a", "x")
    found["left"] = len(await client.list(BERTHS))
    node = await client.patch(Node, "n1", {"spec": {"unschedulable": True}})
    found["node"] = node["apiVersion"], node["kind"], node["spec"]
    await client.delete("Pod", "gone", "default")
    found["pods"] = await client.list("Pod")
    return found


def test_a_kind_without_a_type_has_the_name_that_a_live_client_gives_it() -> None:
    client = SimulatedClient(world_with())
    for kind, resource in RESOURCES.items():
        if resource.struct is None and not kind.endswith("Review"):
            made = {"metadata": {"name": "a"}, "apiVersion": resource.api_version, "kind": kind}
            run(client.create(kind, made, "x"))
            by_name = f"{resource.plural}.{resource.version}.{resource.group}"
            assert run(client.get(by_name, "a", "x"))["kind"] == kind


def run(coroutine: Any) -> Any:
    """The simulated client never really waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def test_the_client_does_everything_that_a_real_one_does() -> None:
    world = world_with(objects=(make_node("n1"), make_pod("gone")))
    assert run(_changed(SimulatedClient(world))) == {
        "chosen": ["a"],
        "in y": ["b"],
        "seen": ["ADDED", "ADDED"],
        "a": {
            "apiVersion": "harbour.example/v1",
            "kind": "Berth",
            "metadata": {"name": "a", "namespace": "x", "labels": {"k": "v"}},
        },
        "left": 1,
        "node": ("v1", "Node", {"unschedulable": True}),
        "pods": [],
    }
    assert world.pending == []


@pytest.mark.parametrize(
    ("kind", "body", "status", "sentence"),
    [
        ("Pod", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, 400, "no Pod"),
        (
            "Node",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}},
            409,
            'Node "n1" already exists',
        ),
    ],
)
def test_the_client_refuses_what_a_server_would(
    kind: str, body: dict[str, Any], status: int, sentence: str
) -> None:
    client = SimulatedClient(world_with(objects=(make_node("n1"),)))
    with pytest.raises(ApiError, match=sentence) as raised:
        run(client.create(kind, body))
    assert raised.value.status == status


def test_what_is_not_there_is_not_found() -> None:
    client = SimulatedClient(world_with())
    with pytest.raises(ApiError, match='Node "n1" not found') as raised:
        run(client.get("Node", "n1"))
    assert raised.value.is_not_found
    with pytest.raises(InputError, match='"Berth" is neither a kind'):
        run(client.get("Berth", "n1"))
