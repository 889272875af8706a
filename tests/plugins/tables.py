"""Tables of cases for plugins: a pod, nodes, the pods on them, and what the plugin says of it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from framework.asking import Asked, ask
from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.cluster.state import ClusterState
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.plugin import Plugin
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Pod

FITS = None


class FilterCase(NamedTuple):
    """What a plugin says of each node: `FITS`, or its reason."""

    id: str
    pod: Pod
    nodes: Sequence[Node]
    expected: dict[str, str | None]
    pods: Sequence[Pod] = ()
    """Those that are on the nodes already."""


class ScoreCase(NamedTuple):
    """The score of each node, from 0 to 100."""

    id: str
    pod: Pod
    nodes: Sequence[Node]
    expected: dict[str, int]
    pods: Sequence[Pod] = ()


class HintCase(NamedTuple):
    """One change, and whether a pod that was rejected may try again."""

    id: str
    pod: Pod
    old: ApiObject | None
    new: ApiObject | None
    queue: bool


def table(*rows: NamedTuple) -> pytest.MarkDecorator:
    """One test per row, named by the row's first field."""
    return pytest.mark.parametrize("case", rows, ids=[str(row[0]) for row in rows])


def hints(
    *rows: tuple[str, Pod, ApiObject | None, ApiObject | None, bool],
) -> pytest.MarkDecorator:
    """A table of `HintCase`s."""
    return table(*(HintCase(*row) for row in rows))


def asked(state: ClusterState, pod: Pod, document: Json) -> Asked:
    """Everything that the plugins of a profile say about a pod."""
    return ask(make_cycle(state), make_profile(state, document), pod)


def check_filter(plugin: type[Plugin], case: FilterCase) -> None:
    """Compare a plugin's answers with a row's."""
    found = asked(make_state(case.nodes, case.pods), case.pod, only(plugin.name)).first
    told = {
        name: FITS if answer is None else ", ".join(answer[1].reasons)
        for name, answer in found.items()
    }
    assert told == case.expected


def check_score(plugin: type[Plugin], case: ScoreCase, document: Json | None = None) -> None:
    """Compare a plugin's scores with a row's; without scores all nodes are alike to it."""
    state = make_state(case.nodes, case.pods)
    found = asked(state, case.pod, document or only(plugin.name)).weighted
    assert found.get(plugin.name, dict.fromkeys(case.expected, 0)) == case.expected


def raw(nodes: Sequence[Node], pod: Pod, document: Json, pods: Sequence[Pod] = ()) -> list[int]:
    """The scores of the one plugin that scores, by node, before they are normalised."""
    (scores,) = asked(make_state(nodes, pods), pod, document).raw.values()
    return [scores[node.name] for node in nodes]


def weighted(
    nodes: Sequence[Node], pod: Pod, document: Json, pods: Sequence[Pod] = ()
) -> list[int]:
    """The scores of the one plugin that scores, by node, normalised and weighted."""
    (scores,) = asked(make_state(nodes, pods), pod, document).weighted.values()
    return [scores[node.name] for node in nodes]


def registered(plugin: type[Plugin]) -> list[tuple[EventResource | str, ActionType, bool]]:
    """The events that a plugin waits for, and whether it gives a hint about each."""
    return [
        (registration.event.resource, registration.event.action, registration.hint is not None)
        for registration in make_plugin(plugin).events_to_register()
    ]


def check_hint(plugin: Any, resource: EventResource, case: HintCase) -> None:
    """Compare the hint that a plugin gives about a change with a row's."""
    (hint,) = [r.hint for r in plugin.events_to_register() if r.event.resource is resource]
    answer = hint(case.pod, case.old, case.new)
    assert answer is case.queue
