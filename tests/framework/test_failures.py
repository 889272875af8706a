"""What becomes of exceptions in plugins: one error that names plugin and phase."""

import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from framework.building import make_cycle, make_state, profile_of
from moorage.cluster.view import NodeRow, NodeView
from moorage.errors import PluginError, StateError
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    PostFilterPlugin,
    PostFilterResult,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import Reason, Status, Verdicts
from moorage.model.pod import Pod
from reference.objects import make_node, make_pod


def fail() -> NoReturn:
    raise KeyError("lost")


FAIL_LINE = fail.__code__.co_firstlineno + 1


class FailsPreEnqueue(PreEnqueuePlugin):
    name = "Fails"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        fail()


class FailsPreFilter(PreFilterPlugin[None]):
    name = "Fails"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None]:
        fail()


class FailsFilter(FilterPlugin[None]):
    name = "Fails"

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        fail()


class FailsFilterNode(NodeFilterPlugin):
    name = "Fails"

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        fail()


class FailsPreScore(PreScorePlugin[None], ScorePlugin[None]):
    name = "Fails"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Any:
        raise AssertionError("must not be asked")

    def pre_score(self, pod: Pod, nodes: NodeView) -> None:
        fail()


class FailsScore(ScorePlugin[None]):
    name = "Fails"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Any:
        fail()


class FailsNormalize(NodeScorePlugin):
    name = "Fails"

    def score_node(self, pod: Pod, node: NodeRow) -> int:
        return 1

    def normalize(self, scores: Any, state: None) -> Any:
        fail()


class FailsPostFilter(FilterPlugin[None], PostFilterPlugin):
    name = "Fails"

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        verdicts = Verdicts(len(nodes))
        for row in range(len(nodes)):
            verdicts.reject(row, Reason("no"))
        return verdicts

    def post_filter(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
        fail()


@pytest.mark.parametrize(
    ("plugin", "phase", "text"),
    [
        (FailsPreEnqueue, "PreEnqueue", 'running PreEnqueue plugin "Fails": '),
        (FailsPreFilter, "PreFilter", 'running PreFilter plugin "Fails": '),
        (FailsFilter, "Filter", 'running "Fails" filter plugin: '),
        (FailsFilterNode, "Filter", 'running "Fails" filter plugin: '),
        (FailsPreScore, "PreScore", 'running PreScore plugin "Fails": '),
        (FailsScore, "Score", 'running Score plugins: plugin "Fails" failed with: '),
        (
            FailsNormalize,
            "NormalizeScore",
            'running Normalize on Score plugins: plugin "Fails" failed with: ',
        ),
        (FailsPostFilter, "PostFilter", 'running PostFilter plugin "Fails": '),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_an_exception_in_a_plugin_names_plugin_and_phase(
    plugin: type[Plugin], phase: str, text: str
) -> None:
    state = make_state([make_node("a"), make_node("b")])
    with pytest.raises(PluginError) as caught:
        make_cycle(state).decide(profile_of(state, plugin), make_pod("p"))
    assert str(caught.value) == f"{text}KeyError: 'lost' ({__file__}:{FAIL_LINE})"
    assert isinstance(caught.value.__cause__, KeyError)
    assert (caught.value.plugin, caught.value.phase) == ("Fails", phase)


def test_an_error_of_our_own_is_the_plugins_that_raises_it() -> None:
    class Raises(FilterPlugin[None]):
        name = "Raises"

        def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
            raise StateError("contradiction")

    state = make_state([make_node("a")])
    with pytest.raises(PluginError, match=r"\"Raises\" filter plugin: contradiction \(.*py:\d+\)$"):
        make_cycle(state).decide(profile_of(state, Raises), make_pod("p"))


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_is_not_taken_for_a_plugins_failure() -> None:
    class Interrupted(FilterPlugin[None]):
        name = "Interrupted"

        def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
            raise KeyboardInterrupt

    state = make_state([make_node("a")])
    with pytest.raises(KeyboardInterrupt):
        make_cycle(state).decide(profile_of(state, Interrupted), make_pod("p"))


def test_the_cluster_is_untouched_by_a_failed_attempt() -> None:
    state = make_state([make_node("a")])
    generation = state.stamps.generation
    with pytest.raises(PluginError):
        make_cycle(state).decide(profile_of(state, FailsFilter), make_pod("p"))
    assert state.stamps.generation == generation
    assert not list(state.placed_pods())
