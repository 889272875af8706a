"""Faults are counted with plugin, point, kind and place, and whoever keeps failing is told of."""

from typing import Any

import numpy as np
import pytest

from framework.building import make_cycle, make_state, profile_of
from moorage.cluster.view import NodeRow, NodeView
from moorage.errors import PluginError
from moorage.framework.calls import watched
from moorage.framework.cluster_events import ActionType, EventResource, on
from moorage.framework.faults import PluginFault, PluginFaults
from moorage.framework.pacing import PluginCalls
from moorage.framework.plugin import (
    FilterPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Plugin,
    ScorePlugin,
)
from moorage.framework.status import Verdicts
from moorage.model.pod import Pod
from moorage.plugins.node_name import NodeName
from reference.objects import make_node, make_pod


class Divides(FilterPlugin[None]):
    name = "Divides"

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        return Verdicts(1 // 0)


class Floats(ScorePlugin[None]):
    name = "Floats"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Any:
        return np.full(len(nodes), np.nan)


class HalfAPoint(NodeScorePlugin):
    name = "HalfAPoint"

    def score_node(self, pod: Pod, node: NodeRow) -> Any:
        return 0.5


class TooMuch(ScorePlugin[None]):
    name = "TooMuch"

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Any:
        return np.full(len(nodes), 101)


@pytest.mark.parametrize(
    ("plugin", "point", "kind", "method"),
    [
        (Divides, "Filter", "exception", Divides.filter),
        (Floats, "Score", "answer", Floats.score),
        (HalfAPoint, "Score", "exception", HalfAPoint.score_node),
        (TooMuch, "Score", "score", TooMuch.score),
    ],
)
def test_a_fault_is_counted_and_named_with_its_place(
    plugin: type[Plugin], point: str, kind: str, method: Any
) -> None:
    state = make_state([make_node("a"), make_node("b")])
    profile = profile_of(state, plugin)
    faults: list[PluginFault] = []
    profile.plugins[plugin.name].handle.faults.observe = faults.append
    with pytest.raises(PluginError) as caught:
        make_cycle(state).decide(profile, make_pod("p"))
    (fault,) = faults
    assert (fault.plugin, fault.point, fault.kind) == (plugin.name, point, kind)
    line = method.__code__.co_firstlineno + (plugin is Divides)
    assert f"({__file__}:{line})" in str(caught.value) == fault.message


def fault(plugin: str = "A", point: str = "Filter", profile: str = "p") -> PluginFault:
    return PluginFault(profile, plugin, point, "exception", "text")


def test_a_row_of_faults_is_told_of_when_it_is_long_and_each_time_it_has_doubled() -> None:
    faults, told = PluginFaults(), list[int]()
    faults.row, faults.keeps_failing = 3, lambda _, times: told.append(times)
    for _ in range(25):
        faults.attempt_begins("p")
        faults.note(fault())
    assert told == [3, 6, 12, 24]


def test_an_attempt_that_goes_well_ends_a_row() -> None:
    faults, told = PluginFaults(), list[int]()
    faults.row, faults.keeps_failing = 2, lambda _, times: told.append(times)
    for _ in range(5):
        faults.attempt_begins("p")
        faults.note(fault())
        faults.attempt_begins("p")  # goes well
    assert told == []
    faults.note(fault())
    faults.attempt_begins("q")  # says nothing of another profile
    faults.note(fault(point="Reserve"))
    assert told == [2]


def test_an_attempt_counts_a_fault_once_even_if_a_plugin_is_asked_twice() -> None:
    faults, counted = PluginFaults(), list[str]()
    faults.observe = lambda fault: counted.append(fault.point)
    for point in ("Filter", "Filter", "QueueingHint", "QueueingHint"):
        faults.note(fault(point=point))
    faults.attempt_begins("p")
    faults.note(fault())
    assert counted == ["Filter", "QueueingHint", "QueueingHint", "Filter"]


def test_it_is_known_which_plugin_is_at_work() -> None:
    calls = PluginCalls()
    seen = []

    class Looks(NodeFilterPlugin):
        name = "Looks"

        def filter_node(self, pod: Pod, node: Any) -> None:
            seen.append(calls.current)

        def events_to_register(self) -> Any:
            def hint(*_: Any) -> bool:
                seen.append(calls.current)
                return True

            return [on(EventResource.NODE, ActionType.ADD, hint)]

    state = make_state([make_node("a"), make_node("b")])
    looks = watched(Looks, calls, "sea")
    assert issubclass(looks, Looks)
    assert (looks.__name__, looks.__module__) == (Looks.__name__, Looks.__module__)
    plugin: Any = looks(None, profile_of(state).queue_sort.handle)
    assert not plugin.filter(make_pod("p"), NodeView(state), None).rejected.any()
    (registered,) = plugin.events_to_register()
    assert registered.hint(make_pod("p"), None, None) is True
    assert seen == [["sea"]] * 3
    assert seen[0] is seen[1]
    assert calls.current is None


def test_plugins_of_the_tree_are_not_watched() -> None:
    assert watched(NodeName, PluginCalls(), "sea") is NodeName
