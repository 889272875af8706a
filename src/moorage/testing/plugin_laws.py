"""The laws that every plugin which answers for nodes must keep, tried on random clusters.

1. Parts: the answer for some nodes is the same whether they are asked about with all others, in a
   smaller view, or one by one.
2. Reuse: an answer kept and refreshed after any events equals one asked afresh, and the one that a
   newly built cluster of the same objects gives. A plugin that forgets an aspect in `reads`, or is
   `row_local` although it looks at other rows, is found here.
3. Keys: pods with equal `pod_key` get equal answers.
4. Reading: asking changes nothing in the cluster.
5. Promises: what the plugin says to be spared questions is true (`promise_laws`).

Owns the laws, not the objects they are tried on (`random_objects`).
"""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.listers import Listers
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    Plugin,
    ScorePlugin,
)
from moorage.framework.reuse import Answers
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import with_devices
from moorage.testing.asking import (
    Answer,
    LawBrokenError,
    before_filter,
    before_score,
    by_name,
    first_difference,
    told,
)
from moorage.testing.builders import cluster
from moorage.testing.promise_laws import PromiseLaws
from moorage.testing.random_objects import random_event, random_node, random_pod

_NODES = 12
_GUESTS = 15
_WAITING = 8
_EVENTS = 12
_EVENTS_BETWEEN = 3


def check_plugin(
    plugin_class: type[Plugin],
    args: Any = None,
    *,
    pods: Iterable[Pod] = (),
    others: Iterable[ApiObject] = (),
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    rounds: int = 10,
    seed: int = 0,
) -> None:
    """Try the laws on `rounds` random clusters; raises `LawBrokenError` where one does not hold.

    `args` goes to the plugin's constructor. `pods` are asked about beside random ones: give pods
    that your plugin has something to say about. `others` (services, namespaces, ...) are in every
    cluster. The same `seed` gives the same clusters.
    """
    if not issubclass(plugin_class, FilterPlugin | ScorePlugin):
        raise TypeError(f"{plugin_class.__name__} answers for no nodes: there is nothing to check")
    extra, objects = tuple(pods), tuple(others)
    for number in range(seed, seed + rounds):
        random = Random(number)
        nodes = [random_node(random, f"node-{i}") for i in range(_NODES)]
        names = [node.name for node in nodes]
        guests = [random_pod(random, f"pod-{i}", random.choice(names)) for i in range(_GUESTS)]
        state = cluster(nodes, guests, objects)
        waiting = [*extra, *(random_pod(random, f"waiting-{i}") for i in range(_WAITING))]
        try:
            _Laws(plugin_class, args, gates, state, random).check(waiting)
        except LawBrokenError as broken:
            raise LawBrokenError(f"{plugin_class.name}: {broken} (seed {number})") from None


class _Laws:
    """The laws over one cluster."""

    def __init__(
        self,
        plugin_class: type[Plugin],
        args: Any,
        gates: FeatureGates,
        state: ClusterState,
        random: Random,
    ) -> None:
        self._make: Callable[[Listers], Plugin] = lambda listers: plugin_class(
            args, with_devices(Handle(listers, gates))
        )
        self._plugin = self._make(state.listers)
        self._state = state
        self._random = random
        self._answers = Answers(state)
        self._promises = PromiseLaws(self._plugin)

    def check(self, pods: Sequence[Pod]) -> None:
        for serial in range(_EVENTS):
            for pod in pods:
                self._check_parts(pod)
                self._check_reuse(pod)
                self._promises.check(pod, NodeView(self._state))
            self._check_keys(pods)
            for part in range(_EVENTS_BETWEEN):
                random_event(self._random, self._state, serial * _EVENTS_BETWEEN + part)

    def _check_parts(self, pod: Pod) -> None:
        before = _contents(self._state)
        nodes = NodeView(self._state)
        some = self._some_rows(len(nodes))
        for kind, whole, parts in (
            ("filter", *_filter_in_parts(self._plugin, pod, nodes, some)),
            ("score", *_score_in_parts(self._plugin, pod, nodes, some)),
        ):
            for how, part in parts:
                for name, answer in part.items():
                    if answer != whole[name]:
                        raise LawBrokenError(
                            f"{kind} of pod {pod.key} says {whole[name]} of {name} when asked "
                            f"about all nodes, but {answer} {how}"
                        )
        if _contents(self._state) != before:
            raise LawBrokenError(f"asking about pod {pod.key} changed the cluster")

    def _check_reuse(self, pod: Pod) -> None:
        fresh = Answers(self._state, enabled=False)
        rebuilt = _rebuilt(self._state)
        other = self._make(rebuilt.listers)
        for kind, ask in (("filter", _kept_filter), ("score", _kept_score)):
            afresh = ask(self._plugin, pod, NodeView(self._state), fresh)
            kept = ask(self._plugin, pod, NodeView(self._state), self._answers)
            anew = ask(other, pod, NodeView(rebuilt), Answers(rebuilt, enabled=False))
            for how, answer in (("kept and refreshed", kept), ("in a newly built cluster", anew)):
                _compare(kind, pod, afresh, answer, how)

    def _check_keys(self, pods: Sequence[Pod]) -> None:
        first_with: dict[Any, Pod] = {}
        nodes, fresh = NodeView(self._state), Answers(self._state, enabled=False)
        for pod in pods:
            key = self._plugin.pod_key(pod)
            if key is None:
                continue
            first = first_with.setdefault(key, pod)
            for kind, ask in (("filter", _kept_filter), ("score", _kept_score)):
                ours, theirs = (ask(self._plugin, p, nodes, fresh) for p in (pod, first))
                # Skipping is decided per pod before any kept answer is looked at.
                if ours is not None and theirs is not None:
                    _compare(kind, pod, ours, theirs, f"of pod {first.key}, which has the same key")

    def _some_rows(self, size: int) -> Rows:
        return np.array(sorted(self._random.sample(range(size), max(1, size // 2))), np.intp)


def _compare(kind: str, pod: Pod, right: Answer | None, other: Answer | None, how: str) -> None:
    if right == other:
        return
    right, other = right or {}, other or {}
    name = first_difference(right, other) or "any node"
    raise LawBrokenError(
        f"{kind} of pod {pod.key} says {right.get(name)} of {name} when asked afresh, "
        f"but {other.get(name)} {how}"
    )


def _kept_filter(plugin: Plugin, pod: Pod, nodes: NodeView, answers: Answers) -> Answer | None:
    if not isinstance(plugin, FilterPlugin):
        return None
    prepared = before_filter(plugin, pod, nodes)
    if not prepared.looks:
        return None
    everything = np.ones(len(nodes), np.bool_)
    return told(nodes, answers.verdicts(plugin, pod, nodes, prepared.state, everything))


def _kept_score(plugin: Plugin, pod: Pod, nodes: NodeView, answers: Answers) -> Answer | None:
    if not isinstance(plugin, ScorePlugin):
        return None
    prepared = before_score(plugin, pod, nodes)
    if not prepared.looks:
        return None
    return by_name(nodes, answers.scores(plugin, pod, nodes, prepared.state, None))


def _filter_in_parts(
    plugin: Plugin, pod: Pod, nodes: NodeView, some: Rows
) -> tuple[Answer, list[tuple[str, Answer]]]:
    if not isinstance(plugin, FilterPlugin):
        return {}, []
    prepared = before_filter(plugin, pod, nodes)
    if not prepared.looks:
        return {}, []

    def ask(view: NodeView) -> Answer:
        return told(view, plugin.filter(pod, view, prepared.state))

    return ask(nodes), _parts(nodes, some, ask)


def _score_in_parts(
    plugin: Plugin, pod: Pod, nodes: NodeView, some: Rows
) -> tuple[Answer, list[tuple[str, Answer]]]:
    # Scores that look across nodes depend on which nodes are asked about; only the others can be
    # taken apart.
    if not isinstance(plugin, ScorePlugin) or not plugin.row_local:
        return {}, []
    prepared = before_score(plugin, pod, nodes)
    if not prepared.looks:
        return {}, []

    def ask(view: NodeView) -> Answer:
        return by_name(view, plugin.score(pod, view, prepared.state))

    return ask(nodes), _parts(nodes, some, ask)


def _parts(
    nodes: NodeView, some: Rows, ask: Callable[[NodeView], Answer]
) -> list[tuple[str, Answer]]:
    single: Answer = {}
    for row in range(len(nodes)):
        single |= ask(nodes.take(np.array([row], np.intp)))
    return [
        ("when asked about some nodes", ask(nodes.take(some))),
        ("when asked about it alone", single),
    ]


def _rebuilt(state: ClusterState) -> ClusterState:
    """The same objects in a new cluster; nodes keep their order."""
    pods = [pod for pod, _ in state.placed_pods()]
    rebuilt = cluster(state.nodes.nodes, pods)
    rebuilt.listers = state.listers
    return rebuilt


def _contents(state: ClusterState) -> Any:
    """Everything a plugin could have written to by way of a view."""
    nodes = NodeView(state)
    resources = sorted({name for node in state.nodes.nodes for name in node.allocatable})
    return (
        state.stamps.generation,
        nodes.names(),
        [nodes.allocatable(name).tolist() for name in resources],
        [nodes.requested(name).tolist() for name in resources],
        nodes.pod_count.tolist(),
        nodes.unschedulable.tolist(),
        nodes.taints.codes.tolist(),
        [[pod.uid for pod in nodes.pods_on(row)] for row in range(len(nodes))],
    )
