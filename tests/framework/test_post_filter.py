"""PostFilter plugins one after another (CYC-100)."""

from typing import Any

import pytest

from framework.building import make_cycle, make_state, profile_of
from moorage.cluster.view import NodeView
from moorage.engine.decisions import Unschedulable
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import (
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
)
from moorage.framework.post_filtering import post_filter
from moorage.framework.status import Code, Reason, Status, Verdicts
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod


class Never(FilterPlugin[None]):
    """Refuses every node."""

    name = "Never"
    reason = Reason("never")

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        for row in range(len(nodes)):
            verdicts.reject(row, self.reason)
        return verdicts


def proposing(
    name_: str, code: Code, text: str, log: list[str] | None = None, **result: Any
) -> type[Plugin]:
    class Proposes(PostFilterPlugin):
        name = name_

        def post_filter(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
            if log is not None:
                log.append(name_)
            return PostFilterResult(Status(code, (text,) if text else ()), **result)

    return Proposes


def proposed(*plugins: type[Plugin]) -> tuple[PostFilterResult, str]:
    state = make_state([make_node("a")])
    cycle, profile = make_cycle(state), profile_of(state, Never, *plugins)
    decision, attempt = cycle.decide(profile, make_pod("p"))
    assert isinstance(decision, Unschedulable)
    assert attempt is not None
    return post_filter(attempt), decision.message


def test_the_reasons_of_plugins_that_can_do_nothing_are_strung_together() -> None:
    result, message = proposed(
        proposing("A", Code.UNSCHEDULABLE, "nothing to free"),
        proposing("B", Code.UNSCHEDULABLE, "nobody to evict"),
    )
    assert result.status == Status(Code.UNSCHEDULABLE, ("nothing to free", "nobody to evict"), "A")
    assert message == "0/1 nodes are available: 1 never. nothing to free, nobody to evict"


def test_the_first_success_ends_the_chain_and_says_nothing() -> None:
    log: list[str] = []
    result, message = proposed(
        proposing("A", Code.UNSCHEDULABLE, "nothing to free", log),
        proposing("B", Code.SUCCESS, "", log, nominated_node="a"),
        proposing("C", Code.SUCCESS, "", log, nominated_node="b"),
    )
    assert set(log) == {"A", "B"}
    assert (result.status.code, result.status.plugin) == (Code.SUCCESS, "B")
    assert result.nominated_node == "a"
    assert message == "0/1 nodes are available: 1 never."


@pytest.mark.parametrize("code", [Code.UNRESOLVABLE, Code.ERROR], ids=lambda code: code.value)
def test_an_incurable_answer_and_an_error_end_the_chain(
    code: Code, caplog: pytest.LogCaptureFixture
) -> None:
    log: list[str] = []
    result, message = proposed(
        proposing("A", code, "hopeless", log), proposing("B", Code.SUCCESS, "", log)
    )
    assert set(log) == {"A"}
    assert result.status == Status(code, ("hopeless",), "A")
    assert message == "0/1 nodes are available: 1 never. hopeless"
    if code is Code.ERROR:
        assert '"Status after running PostFilter plugins for pod"' in caplog.text
        assert 'logger="UnhandledError" pod="default/p" status="hopeless"' in caplog.text


def test_a_plugin_that_asks_for_patience_does_not_end_the_chain() -> None:
    log: list[str] = []
    result, _ = proposed(
        proposing("A", Code.PENDING, "wait for it", log),
        proposing("B", Code.UNSCHEDULABLE, "nobody to evict", log),
    )
    assert set(log) == {"A", "B"}
    assert result.status == Status(Code.UNSCHEDULABLE, ("wait for it", "nobody to evict"), "A")


def test_of_several_results_the_last_that_says_something_of_a_nomination_is_kept() -> None:
    result, _ = proposed(
        proposing("A", Code.UNSCHEDULABLE, "a", nominated_node=""),
        proposing("B", Code.UNSCHEDULABLE, "b"),
    )
    assert result.nominated_node == "", "the nomination is taken back"
    result, _ = proposed(proposing("A", Code.UNSCHEDULABLE, "a"))
    assert result.nominated_node is None, "nobody said anything of a nomination"


def test_without_plugins_the_sentence_ends_after_the_reasons() -> None:
    state = make_state([make_node("a")])
    decision, attempt = make_cycle(state).decide(profile_of(state, Never), make_pod("p"))
    assert isinstance(decision, Unschedulable)
    assert decision.message == "0/1 nodes are available: 1 never."
    assert decision.nominated_node is None
    assert attempt is not None
    assert attempt.post_filter is None
