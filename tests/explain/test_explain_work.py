"""How much is asked for one explanation: whole columns, and few times, however many nodes."""

from typing import Any

from framework.building import make_cycle, make_profile, make_state, only
from moorage.cluster.view import NodeView
from moorage.explain.pods import explain_pod
from moorage.framework.plugin import FilterPlugin
from moorage.framework.status import Verdicts
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod


class Counting(FilterPlugin[None]):
    """Counts how often it is asked."""

    name = "Counting"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.asked: list[int] = []

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        self.asked.append(len(nodes))
        return Verdicts(len(nodes))


def questions(nodes: int, pod: Pod, *, placed_on: str | None = None) -> list[int]:
    lesser = [make_pod(f"low{i}", cpu="3", node_name=f"n{i}", priority=1) for i in range(nodes)]
    state = make_state([make_node(f"n{i}") for i in range(nodes)], lesser)
    document = only("Counting", "NodeResourcesFit", "DefaultPreemption")
    profile = make_profile(state, document, [Counting])
    counting = profile.plugins["Counting"]
    assert isinstance(counting, Counting)
    explain_pod(make_cycle(state), profile, pod, source="live", placed_on=placed_on, fixes=False)
    return counting.asked


def test_a_pod_that_fits_costs_two_questions_for_all_nodes() -> None:
    assert questions(40, make_pod(cpu="1")) == [40, 40]


def test_a_placed_pod_costs_one() -> None:
    pod = make_pod("low3", cpu="3", node_name="n3", priority=1)
    assert questions(40, pod, placed_on="n3") == [40]


def test_preemption_does_not_cost_a_question_for_each_node() -> None:
    pod = make_pod(cpu="4", priority=10)
    few, many = questions(40, pod), questions(400, pod)
    assert len(few) == len(many)
    assert len(many) < 12


def test_a_pod_no_room_can_be_made_for_costs_no_more() -> None:
    assert len(questions(400, make_pod(cpu="40", priority=10))) < 12
