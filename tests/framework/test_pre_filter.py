"""What PreFilter plugins may say, and how their answers are put together (CYC-015..018)."""

from collections.abc import Iterable
from typing import Any

import pytest

from framework.building import make_cycle, make_state, profile_of
from moorage.cluster.view import NodeView
from moorage.engine.decisions import Unschedulable
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import FilterPlugin, Plugin, PreFilterPlugin, PreFilterResult
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod

Said = PreFilterResult[Any] | Skip | Status
refused = Reason("refused by filter")


def saying(name_: str, answer: Said, log: list[str] | None = None) -> type[Plugin]:
    """A plugin whose PreFilter gives this answer; its filter refuses every node."""

    class Says(PreFilterPlugin[Any], FilterPlugin[Any]):
        name = name_

        def pre_filter(self, pod: Pod, nodes: NodeView) -> Said:
            if log is not None:
                log.append(name_)
            return answer

        def filter(self, pod: Pod, nodes: NodeView, state: Any) -> Verdicts:
            if log is not None:
                log.append(f"{name_} filters with {state}")
            return Verdicts(len(nodes))

    return Says


def only_nodes(*names: str) -> PreFilterResult[str]:
    return PreFilterResult("state", frozenset(names))


def attempted(*plugins: type[Plugin], nodes: Iterable[str] = ("a", "b", "c")) -> AttemptResult:
    state = make_state([make_node(name) for name in nodes])
    return make_cycle(state).filter(profile_of(state, *plugins), make_pod("p"))


def unresolvable(text: str) -> Status:
    return Status(Code.UNRESOLVABLE, (text,))


def unschedulable(text: str) -> Status:
    return Status(Code.UNSCHEDULABLE, (text,))


def test_states_reach_the_filters_of_their_plugins() -> None:
    log: list[str] = []
    attempted(
        saying("A", PreFilterResult("of A"), log),
        saying("B", PreFilterResult("of B"), log),
    )
    assert log == ["A", "B", "A filters with of A", "B filters with of B"]


def test_a_plugin_that_skips_is_not_asked_about_nodes() -> None:
    log: list[str] = []
    attempt = attempted(saying("A", SKIP, log), saying("B", PreFilterResult("of B"), log))
    assert log == ["A", "B", "B filters with of B"]
    assert attempt.before.skipped == {"A"}


def test_an_incurable_rejection_ends_the_round_at_once() -> None:
    log: list[str] = []
    attempt = attempted(
        saying("A", unresolvable("no"), log), saying("B", PreFilterResult("x"), log)
    )
    assert log == ["A"]
    assert attempt.before.rejection == Status(Code.UNRESOLVABLE, ("no",), "A")
    assert attempt.outcome is None
    assert attempt.before.ran == ("A",)


def test_of_several_curable_rejections_the_last_one_counts_and_all_plugins_run() -> None:
    log: list[str] = []
    attempt = attempted(
        saying("A", unschedulable("first"), log),
        saying("B", unschedulable("second"), log),
        saying("C", PreFilterResult("x"), log),
    )
    assert log == ["A", "B", "C"]
    assert attempt.before.rejection == Status(Code.UNSCHEDULABLE, ("second",), "B")
    assert attempt.outcome is None


def test_an_incurable_rejection_beats_an_earlier_curable_one() -> None:
    attempt = attempted(saying("A", unschedulable("first")), saying("B", unresolvable("second")))
    assert attempt.before.rejection == Status(Code.UNRESOLVABLE, ("second",), "B")


def test_a_status_that_is_no_rejection_is_an_error() -> None:
    with pytest.raises(PluginError, match='running PreFilter plugin "A": boom'):
        attempted(saying("A", Status(Code.ERROR, ("boom",))))


def test_only_the_nodes_that_a_plugin_names_are_looked_at() -> None:
    attempt = attempted(saying("A", only_nodes("b", "unknown")))
    assert attempt.outcome is not None
    assert attempt.outcome.considered.tolist() == [False, True, False]
    assert attempt.outcome.feasible.tolist() == [1]
    assert attempt.before.named.keys() == {"A"}


def test_nodes_named_by_several_plugins_are_those_all_of_them_name() -> None:
    attempt = attempted(
        saying("A", only_nodes("a", "b")),
        saying("B", PreFilterResult("all nodes")),
        saying("C", only_nodes("b", "c")),
    )
    assert attempt.before.node_names == frozenset({"b"})
    assert attempt.before.named.keys() == {"A", "C"}


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        (
            [saying("B", only_nodes("a")), saying("A", only_nodes("b"))],
            "node(s) didn't satisfy plugin(s) [A B] simultaneously",
        ),
        ([saying("A", only_nodes())], "node(s) didn't satisfy plugin A"),
    ],
    ids=["two that exclude each other", "one that names nothing"],
)
def test_when_no_node_is_left_the_pod_is_rejected_by_those_that_named_nodes(
    plugins: list[type[Plugin]], message: str
) -> None:
    log: list[str] = []
    attempt = attempted(*plugins, saying("Late", PreFilterResult("x"), log))
    assert attempt.before.rejection == unresolvable(message)
    assert attempt.diagnosis.message() == f"0/3 nodes are available: {message}."
    assert attempt.diagnosis.unschedulable_plugins == {plugin.name for plugin in plugins}
    assert log == [], "the round is over"


def test_a_rejection_is_the_answer_for_every_node() -> None:
    attempt = attempted(saying("A", unschedulable("later")))
    assert attempt.status(0) == Status(Code.UNSCHEDULABLE, ("later",), "A")
    assert attempt.diagnosis.resolvable_rows().all(), "evicting pods may cure it"
    attempt = attempted(saying("A", unresolvable("never")))
    assert not attempt.diagnosis.resolvable_rows().any()


def test_nodes_that_do_not_exist_leave_nothing_to_look_at() -> None:
    state = make_state([make_node("a")])
    profile = profile_of(state, saying("A", only_nodes("gone")))
    decision, _ = make_cycle(state).decide(profile, make_pod("p"))
    assert isinstance(decision, Unschedulable)
    assert decision.message == ("0/1 nodes are available: 1 node(s) didn't satisfy plugin(s) [A].")
    assert decision.unschedulable_plugins == {"A"}
