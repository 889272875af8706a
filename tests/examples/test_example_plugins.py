"""The example plugins do what their docstrings say, alone and in a whole scheduler."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from berths import NeedsBerth
from co_scheduling import CoScheduling
from free_memory import FreeMemory
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding, Failure
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.framework.plugin import Plugin
from moorage.kube.live import build_scheduler
from moorage.model.custom import CustomObject, custom_object
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import check_plugin, make_node, make_pod
from one_per_team import OnePerTeam
from whole_batch import WholeBatch
from zone_limit import ZoneLimit

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
FILES = sorted(EXAMPLES.glob("*.py"))


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


BERTHS = "berths.v1.harbour.example"


def berth(name: str, node_name: str, length: int) -> CustomObject:
    return custom_object(
        {
            "apiVersion": "harbour.example/v1",
            "kind": "Berth",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"node": node_name, "length": length},
        }
    )


def configuration_of(plugin: type[Plugin]) -> str:
    """The configuration that the docstring of a plugin's module tells to write."""
    doc = import_module(plugin.__module__).__doc__ or ""
    profiles = next(line for line in doc.splitlines() if line.startswith("`profiles:"))
    return HEAD + profiles.split("`")[1] + "\n"


def scheduler_with(plugin: type[Plugin] | None, *nodes: Node) -> Scheduler:
    registry = in_tree_registry()
    config = HEAD
    if plugin is not None:
        registry.register(plugin)
        config = configuration_of(plugin)
    clock = VirtualClock(1_000_000.0)
    made = build_scheduler(load_config(config, "test"), registry, DEFAULT_FEATURE_GATES, clock)
    for node in nodes:
        made.handlers.add_node(node)
    return made


def decided(scheduler: Scheduler, *pods: Pod) -> list[Any]:
    """Everything that is to be done after these pods came."""
    for pod in pods:
        scheduler.handlers.add_pod(pod)
    while scheduler.schedule_one():
        pass
    actions = list(scheduler.outbox)
    scheduler.outbox.clear()
    return actions


def places(actions: list[Any]) -> dict[str, str]:
    """Pod -> its node, or why it has none."""
    return {a.pod.name: a.node_name if isinstance(a, Binding) else a.message for a in actions}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    first = path.stem in ("one_per_team", "free_memory", "zone_limit", "whole_batch")
    assert len(path.read_text().splitlines()) <= (39 if first else 60)


def test_every_example_is_offered_as_an_entry_point() -> None:
    project = tomllib.loads((EXAMPLES / "pyproject.toml").read_text())
    offered = project["project"]["entry-points"]["moorage.plugins"]
    for name, target in offered.items():
        module, _, attribute = target.partition(":")
        assert getattr(import_module(module), attribute).name == name
    modules = [target.partition(":")[0] for target in offered.values()]
    assert modules == project["tool"]["setuptools"]["py-modules"]
    assert sorted(modules) == [path.stem for path in FILES]


def test_the_examples_pass_the_checks_of_plugins() -> None:
    teams = [make_pod(f"team-{i}", labels={"team": team}) for i, team in enumerate("ab")]
    check_plugin(OnePerTeam, pods=teams)
    check_plugin(FreeMemory, pods=[make_pod("large", memory="3Gi"), make_pod("huge", memory="1Ti")])
    check_plugin(ZoneLimit, pods=[make_pod(f"pod-{app}", labels={"app": app}) for app in "ab"])


def test_teams_do_not_share_a_node() -> None:
    scheduler = scheduler_with(OnePerTeam, make_node("n1"), make_node("n2"))
    pods = [make_pod(f"{team}{i}", labels={"team": team}) for i in (1, 2) for team in "ab"]
    found = places(decided(scheduler, *pods, make_pod("c1", labels={"team": "c"}), make_pod("any")))
    assert found["a1"] == found["a2"] != found["b1"] == found["b2"]
    assert found["c1"].startswith("0/2 nodes are available: 2 node(s) already host another team.")
    assert found["any"] in ("n1", "n2")


def test_the_node_with_the_largest_share_of_free_memory_is_taken() -> None:
    nodes = (
        make_node("much-cpu", cpu="64", memory="4Gi"),
        make_node("much-memory", cpu="1", memory="64Gi"),
    )
    pod = make_pod(cpu="1", memory="2Gi")
    assert places(decided(scheduler_with(None, *nodes), pod)) == {"pod": "much-cpu"}
    assert places(decided(scheduler_with(FreeMemory, *nodes), pod)) == {"pod": "much-memory"}


def test_a_zone_takes_two_pods_of_an_app() -> None:
    nodes = [make_node(f"{zone}{i}", zone=zone) for zone in ("east", "west") for i in (1, 2)]
    scheduler = scheduler_with(ZoneLimit, *nodes)
    found = places(
        decided(scheduler, *(make_pod(f"pod-{i}", labels={"app": "web"}) for i in range(5)))
    )
    assert sorted(found[f"pod-{i}"][:4] for i in range(4)) == ["east", "east", "west", "west"]
    assert "4 node(s) in a zone that has two pods of the app" in found["pod-4"]
    assert places(decided(scheduler, make_pod("other", labels={"app": "db"})))["other"] in {
        node.name for node in nodes
    }


def test_preemption_knows_that_an_evicted_pod_leaves_its_zone() -> None:
    scheduler = scheduler_with(ZoneLimit, make_node("n1", zone="east"))
    for i in (1, 2):
        labels = {"app": "web"}
        scheduler.handlers.add_pod(make_pod(f"old-{i}", labels=labels, node_name="n1", priority=i))
    actions = decided(scheduler, make_pod("urgent", labels={"app": "web"}, priority=10))
    assert [victim.name for victim in actions[0].victims] == ["old-1"]


def test_a_batch_waits_until_all_of_it_has_a_node() -> None:
    scheduler = scheduler_with(WholeBatch, make_node("n1"))
    labels = {"batch": "night", "batch-size": "3"}
    first, second, single = decided(
        scheduler, *(make_pod(f"job-{i}", labels=labels) for i in (1, 2)), make_pod("single")
    )
    assert single.waiting is None
    assert len(scheduler.waiting) == 2
    (third,) = decided(scheduler, make_pod("job-3", labels=labels))
    assert third.waiting is None
    assert first.waiting.pending_plugins == second.waiting.pending_plugins == ()
    assert not len(scheduler.waiting)


def test_a_pod_that_gives_up_does_not_count_for_its_batch() -> None:
    scheduler = scheduler_with(WholeBatch, make_node("n1"))
    labels = {"batch": "night", "batch-size": "2"}
    (first,) = decided(scheduler, make_pod("job-1", labels=labels))
    outcomes: list[Any] = []
    first.waiting.when_settled(outcomes.append)
    first.waiting.expire(first.waiting.deadline)
    assert "timeout after waiting 1m0s at plugin WholeBatch" in outcomes[0].message
    scheduler.binding_failed(first, outcomes[0], "Permit")
    scheduler.handlers.delete_pod(first.pod)
    actions = decided(scheduler, make_pod("job-2", labels=labels))
    assert [type(action) for action in actions] == [Failure, Binding]
    assert len(scheduler.waiting) == 1


GROUP = {"pod-group": "crew", "min-available": "3"}


def group_of_pods(*sizes: str) -> list[Pod]:
    return [make_pod(f"crew-{i}", labels=GROUP, cpu=cpu) for i, cpu in enumerate(sizes, 1)]


def test_a_group_is_not_tried_before_all_its_pods_are_there() -> None:
    scheduler = scheduler_with(CoScheduling, make_node("n1", cpu="4"))
    pods = group_of_pods("1", "1", "1")
    refused = places(decided(scheduler, *pods[:2]))
    assert all("pods of the group are missing" in text for text in refused.values())
    assert places(decided(scheduler, pods[2])) == dict.fromkeys(
        ("crew-1", "crew-2", "crew-3"), "n1"
    )
    assert not len(scheduler.waiting)


def test_pods_of_a_group_wait_and_give_up_together() -> None:
    scheduler = scheduler_with(CoScheduling, make_node("n1", cpu="4"))
    first, second, third = decided(scheduler, *group_of_pods("1", "1", "8"))
    assert "Insufficient cpu" in third.message
    assert {one.pod.name for one in scheduler.handle.waiting} == {"crew-1", "crew-2"}
    outcomes: list[Any] = []
    for binding in (first, second):
        binding.waiting.when_settled(outcomes.append)
    first.waiting.expire(first.waiting.deadline)
    scheduler.binding_failed(first, outcomes[0], "Permit")
    assert [outcome.message for outcome in outcomes] == [
        "rejected due to timeout after waiting 1m0s at plugin CoScheduling",
        "pod crew-1 of the same group was not placed",
    ]


def test_a_ship_moors_where_a_berth_is_long_enough() -> None:
    scheduler = scheduler_with(NeedsBerth, make_node("n1"), make_node("n2"))
    scheduler.handlers.add_object(berth("short", "n1", 50), BERTHS)
    boat, ship = (make_pod(f"ship-{n}", labels={"ship-length": str(n)}) for n in (20, 100))
    found = places(decided(scheduler, boat, ship))
    assert found["ship-20"] == "n1"
    assert "2 node(s) had no berth of this length" in found["ship-100"]
    scheduler.handlers.add_object(berth("middle", "n2", 80), BERTHS)
    assert decided(scheduler) == []
    scheduler.handlers.update_object(berth("middle", "n2", 80), berth("middle", "n2", 100), BERTHS)
    assert places(decided(scheduler)) == {"ship-100": "n2"}
