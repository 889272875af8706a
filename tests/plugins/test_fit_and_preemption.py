"""NodeResourcesFit with many resources, and preemption among plugins that declare nothing."""

from typing import Any

from framework.building import make_cycle, make_profile, make_state, only
from moorage.cluster.view import NodeRow
from moorage.engine.decisions import Bind, Unschedulable
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import FURTHER, Reason
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod

MANY = {f"example.com/r{i:02}": "1" for i in range(70)}


def wanting(count: int) -> Pod:
    return make_pod("p", requests=dict(list(MANY.items())[:count]))


def offering(count: int) -> dict[str, Any]:
    return {f"example.com__r{i:02}": "1" for i in range(count)}


def test_a_pod_may_ask_for_forty_extended_resources() -> None:
    state = make_state([make_node("a"), make_node("b", **offering(40))])
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    decision, _ = cycle.decide(profile, wanting(40))
    assert isinstance(decision, Bind)
    assert decision.node_name == "b"


def test_shortages_of_many_resources_are_told_in_order_and_the_rest_as_further_ones() -> None:
    state = make_state([make_node("a")])
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    for count, told in ((40, 40), (70, 60)):
        attempt = cycle.filter(profile, wanting(count))
        assert attempt.outcome is not None
        status = attempt.outcome.status(0)
        assert status is not None
        names = [f"Insufficient {name}" for name in MANY][:told]
        assert list(status.reasons) == names + [FURTHER] * (count > told)
        assert status.code.value == "UnschedulableAndUnresolvable"


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
