"""DefaultPreemption: which less important pods give way, and on which node."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.cluster.view import NodeRow, NodeView
from moorage.engine.decisions import Unschedulable
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.framework.plugin import FilterPlugin, NodeFilterPlugin
from moorage.framework.status import Reason, Verdicts
from moorage.model.labels import compile_selector
from moorage.model.node import Node
from moorage.model.pod import (
    Pod,
)
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.default_preemption.victims import Budget, single, split_by_violation
from plugins.tables import (
    HintCase,
    check_hint,
    hints,
    registered,
    table,
)
from reference.objects import make_node, make_pod, selector

ASSIGNED, NODE, A = EventResource.ASSIGNED_POD, EventResource.NODE, ActionType


class PreemptionCase(NamedTuple):
    """Where a pod that finds no room makes some, and who goes."""

    id: str
    pod: Pod
    nodes: Sequence[Node]
    pods: Sequence[Pod]
    node: str
    victims: tuple[str, ...] = ()


def there(name: str, node: str, priority: int, cpu: str = "2", **more: Any) -> Pod:
    return make_pod(name, node=node, priority=priority, cpu=cpu, **more)


URGENT = make_pod("urgent", cpu="4", priority=100)
ONE, TWO = [make_node("a")], [make_node("a"), make_node("b")]


@table(
    PreemptionCase("a less important pod goes", URGENT, ONE, [there("low", "a", 1)], "a", ("low",)),
    PreemptionCase("an equal one stays", URGENT, ONE, [there("equal", "a", 100)], ""),
    PreemptionCase("a more important one stays", URGENT, ONE, [there("high", "a", 200)], ""),
    PreemptionCase(
        "no more go than must",
        make_pod("urgent", cpu="2", priority=100),
        ONE,
        [there("low", "a", 1), there("lower", "a", 0)],
        "a",
        ("lower",),
    ),
    PreemptionCase(
        "where the most important victim is the least important",
        URGENT,
        TWO,
        [there("dear", "a", 50), there("cheap", "b", 1)],
        "b",
        ("cheap",),
    ),
    PreemptionCase(
        "where fewer go",
        URGENT,
        TWO,
        [there("1", "a", 1, "1"), there("2", "a", 1, "3"), there("3", "b", 1, "4")],
        "b",
        ("3",),
    ),
    PreemptionCase(
        "not where eviction would not help",
        URGENT,
        [make_node("a", cpu="2"), make_node("b")],
        [there("small", "a", 1), there("low", "b", 1)],
        "b",
        ("low",),
    ),
    PreemptionCase(
        "a pod that never preempts",
        make_pod("p", cpu="4", priority=100, preemption_policy="Never"),
        ONE,
        [there("low", "a", 1)],
        "",
    ),
)
def test_less_important_pods_give_way(case: PreemptionCase) -> None:
    state = make_state(case.nodes, case.pods)
    profile = make_profile(state, only("NodeResourcesFit", "DefaultPreemption"))
    decision, _ = make_cycle(state).decide(profile, case.pod)
    assert isinstance(decision, Unschedulable)
    assert (decision.nominated_node or "") == case.node
    assert tuple(victim.name for victim in decision.victims) == case.victims


def test_neighbours_with_more_pods_do_not_hide_the_better_nodes() -> None:
    nodes = [make_node(f"n{number}") for number in range(400)]
    pods = [there(f"p{number}", f"n{number}", 1, "3") for number in range(400)]
    more = [there(f"q{number}", f"n{number}", 1, "1") for number in range(300)]
    state = make_state(nodes, [*pods, *more])
    profile = make_profile(state, only("NodeResourcesFit", "DefaultPreemption"))
    for _ in range(5):  # a hundred of the nodes are looked at, whichever
        decision, _ = make_cycle(state).decide(profile, URGENT)
        assert isinstance(decision, Unschedulable)
        assert len(decision.victims) == 1


class Counting(FilterPlugin[None]):
    """It counts how often it is asked about each node."""

    name = "Counting"
    asked: ClassVar[Counter[str]] = Counter()

    def filter(self, pod: Pod, nodes: NodeView, state: None = None) -> Verdicts:
        del pod, state
        self.asked.update(node.name for node in nodes)
        return Verdicts(len(nodes))


def test_only_nodes_with_less_important_pods_are_tried() -> None:
    full = [there(f"full-{name}", name, 100) for name in "abc"]
    nodes = [make_node(name) for name in "abc"]
    state = make_state(nodes, [there("high", "a", 200), there("low", "b", 1), *full])
    profile = make_profile(
        state, only(Counting.name, "NodeResourcesFit", "DefaultPreemption"), [Counting]
    )
    Counting.asked.clear()
    decision, _ = make_cycle(state).decide(profile, URGENT)
    assert isinstance(decision, Unschedulable)
    assert decision.message.endswith(
        "preemption: 0/3 nodes are available: 1 Insufficient cpu, "
        "2 No preemption victims found for incoming pod."
    )
    assert Counting.asked["a"] == Counting.asked["c"] == 1
    assert Counting.asked["b"] > 1


def test_a_victim_that_breaks_a_budget_is_not_charged_to_those_after_it() -> None:
    both = single(make_pod("both", labels={"app": "web", "tier": "1"}))
    web = single(make_pod("web", labels={"app": "web"}))
    tier = single(make_pod("tier", labels={"tier": "1"}))
    strict = Budget("default", compile_selector(selector({"app": "web"})), 0, frozenset())
    loose = Budget("default", compile_selector(selector({"tier": "1"})), 1, frozenset())
    assert split_by_violation([both, tier], [strict, loose]) == ([(both, 1)], [tier])
    all_of_them = [both, tier, web]
    violating = [(unit, 1) for unit in all_of_them]
    assert split_by_violation(all_of_them, [loose, strict]) == (violating, [])


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(DefaultPreemption) == [(ASSIGNED, A.DELETE, True)]


POOR = make_pod("rejected")


@hints(
    ("a victim went", POOR, make_pod("o", node="n"), None, False),
    ("a pending pod went", POOR, make_pod("o"), None, False),
)
def test_preemption_leaves_the_decision_to_others(case: HintCase) -> None:
    check_hint(make_plugin(DefaultPreemption), ASSIGNED, case)


class OnePerTeam(NodeFilterPlugin):
    """As in the README: it does not say what it reads."""

    name = "OnePerTeam"
    occupied = Reason("node(s) already host another team")

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        team = pod.labels.get("team")
        others = {other.labels.get("team") for other in node.pods} - {None, team}
        return self.occupied if others else None


def test_preemption_asks_a_plugin_that_does_not_say_what_it_reads() -> None:
    state = make_state(
        [make_node("a")],
        [
            make_pod("red", node="a", cpu="1", priority=1, labels={"team": "red"}),
            make_pod("blue", node="a", cpu="1", priority=1, labels={"team": "blue"}),
            make_pod("none", node="a", cpu="1", priority=1),
        ],
    )
    names = ("NodeName", "NodeResourcesFit", OnePerTeam.name, "DefaultPreemption")
    profile = make_profile(state, only(*names), [OnePerTeam])
    pod = make_pod("p", cpu="1", priority=9, labels={"team": "blue"})
    decision, _ = make_cycle(state).decide(profile, pod)
    assert isinstance(decision, Unschedulable)
    assert decision.nominated_node == "a"
    assert [victim.name for victim in decision.victims] == ["red"]
