"""Where proposing ends: unknown plugins, extenders, time, and how much was asked for."""

import pytest

from explain.asked_fixes import fixes_for
from framework.building import NOW, make_cycle, make_profile, make_state
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.explain.fixes import smallest_fixes
from moorage.explain.fixes.sandbox import MOST_RUNS, Sandbox
from moorage.explain.fixes.search import search
from moorage.framework.extenders import Extender
from moorage.framework.plugin import NodeFilterPlugin
from moorage.framework.status import Reason
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod


class ForTheQueen(NodeFilterPlugin):
    """Nobody knows how to please it."""

    name = "ForTheQueen"
    reserved = Reason("node(s) were reserved for the queen")

    def filter_node(self, pod: Pod, node: object) -> Reason | None:
        del pod, node
        return self.reserved


def test_nothing_is_proposed_against_plugins_that_nothing_is_known_about() -> None:
    state = make_state([make_node(), make_node("m", taints=["a:NoSchedule"])])
    document: Json = {"plugins": {"filter": {"enabled": [{"name": ForTheQueen.name}]}}}
    profile = make_profile(state, document, [ForTheQueen])

    assert smallest_fixes(make_cycle(state), profile, make_pod(cpu="64")) == ()


def test_without_nodes_there_is_nothing_to_say() -> None:
    assert fixes_for(make_pod(), []) == ()


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_no_more_is_proposed_than_was_asked_for(limit: int) -> None:
    state = make_state([make_node("a", cpu="2"), make_node("b", taints=["a:NoSchedule"])])
    pod = make_pod(cpu="3")

    fixes = smallest_fixes(make_cycle(state), make_profile(state), pod, limit=limit)

    assert len(fixes) == limit


class Hurrying(VirtualClock):
    """A clock on which every question takes a second."""

    def now(self) -> float:
        self.advance(1.0)
        return super().now()


def test_the_search_ends_when_its_time_is_up() -> None:
    nodes = [make_node(f"n{i}", cpu="2", taints=[f"t{i}:NoSchedule"]) for i in range(6)]
    state = make_state([*nodes, make_node("m", cpu="1")])
    profile, pod = make_profile(state), make_pod(cpu="2")

    def found(seconds: float) -> int:
        cycle = Cycle(state, Hurrying(NOW))
        return len(smallest_fixes(cycle, profile, pod, seconds=seconds))

    assert found(0.0) == 0
    assert 0 < found(8.0) < found(1000.0)


def test_the_engine_is_run_a_bounded_number_of_times() -> None:
    nodes = [
        make_node(f"n{i}", cpu="1", taints=[f"t{j}:NoSchedule" for j in range(8) if i >> j & 1])
        for i in range(1, 256)
    ]
    state = make_state(nodes)
    selector = {f"label-{i}": "x" for i in range(12)}
    bench = Sandbox(
        make_cycle(state),
        make_profile(state),
        make_pod(cpu="2", spec={"nodeSelector": selector}),
        seconds=1.0,
    )

    fixes = search(bench, 10)

    assert fixes
    assert bench.runs <= MOST_RUNS


class Fussy(Extender):
    """Wants to be asked about every node."""

    name = "fussy"
    filters = True


def test_what_extenders_would_say_is_not_known_so_nothing_counts_as_verified() -> None:
    state = make_state([make_node(taints=["a:NoSchedule"])])
    cycle = Cycle(state, VirtualClock(NOW), extenders=[Fussy()])

    fixes = smallest_fixes(cycle, make_profile(state), make_pod())

    assert fixes
    assert not any(fix.verified for fix in fixes)
