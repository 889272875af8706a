"""Checks for every plugin, tried on random clusters, or on one that somebody has.

What a plugin says of nodes:

1. Parts: the answer for some nodes is the same whether they are asked about with all others, in a
   smaller view, or one by one (`SingleRowMixin` included).
2. State: a newly built cluster of the same objects gives the same answers.
3. Keys: what was answered to the first pod with a `pod_key` holds for all pods with that key, but
   for nodes that changed since in what the plugin `reads`. The fast path relies on that.
4. Reading: asking changes nothing in the cluster.
5. Range: scores are integers, and within 0..100 once they are normalised.

`point_checks` has those of the other points. At last the real engine runs with the plugin in all of
its points, the async ones too, and nothing may go wrong.

Owns the checks, not the objects they are tried on (`random_objects`).
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from random import Random
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.listers import Listers
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.framework.fast_path import is_cacheable
from moorage.framework.faults import is_ours
from moorage.framework.guard import (
    FAULTS,
    ask_filter,
    ask_normalize,
    ask_pre_filter,
    ask_pre_score,
    raw_scores,
)
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
    SingleRowMixin,
)
from moorage.framework.status import SKIP
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.testing.builders import cluster
from moorage.testing.errors import PluginCheckError
from moorage.testing.point_checks import (
    check_balance,
    check_class,
    check_queue,
    check_registrations,
    named,
)
from moorage.testing.random_objects import random_event, random_node, random_pod
from moorage.testing.virtual import VirtualScheduler

_NODES = 12
_GUESTS = 15
_WAITING = 8
_EVENTS = 12
_EVENTS_BETWEEN = 3
_RUN_SECONDS = 400.0
"""Longer than most time-outs."""

Answers = dict[str, Any]
"""Node name -> what a plugin says of it."""


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
    """Check a plugin on `rounds` random clusters; raises `PluginCheckError` where it fails.

    `args` goes to the plugin's constructor. `pods` are asked about beside random ones: give pods
    that your plugin has something to say about. `others` (services, namespaces, ...) are in every
    cluster. The same `seed` gives the same clusters.
    """
    check_class(plugin_class)
    extra, objects = tuple(pods), tuple(others)
    for number in range(seed, seed + rounds):
        random = Random(number)
        nodes = [random_node(random, f"node-{i}") for i in range(_NODES)]
        names = [node.name for node in nodes]
        guests = [random_pod(random, f"pod-{i}", random.choice(names)) for i in range(_GUESTS)]
        state = cluster(nodes, guests, objects)
        waiting = [*extra, *(random_pod(random, f"waiting-{i}") for i in range(_WAITING))]
        try:
            _check_here(plugin_class, args, gates, state, waiting, random)
            if number == seed:
                _check_run(plugin_class, args, gates, [*nodes, *objects, *guests, *waiting])
        except FAULTS as failed:
            raise named(plugin_class, failed, f" (seed {number})") from failed.__cause__


def check_plugin_here(
    plugin_class: type[Plugin],
    args: Any,
    state: ClusterState,
    pods: Iterable[Pod],
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> None:
    """Check a plugin on some nodes of a cluster that there is, which stays as it is.

    Points that are async are not tried: they are for writing, and what they write to may be real.
    """
    check_class(plugin_class)
    try:
        _check_here(plugin_class, args, gates, state, list(pods)[:_WAITING], Random(0))
    except FAULTS as failed:
        raise named(plugin_class, failed) from failed.__cause__


def some_of(state: ClusterState, random: Random) -> ClusterState:
    """A cluster with a few nodes of another one, the pods on them, and all other objects."""
    every = state.nodes.nodes
    nodes = random.sample(list(every), min(len(every), _NODES))
    names = {node.name for node in nodes}
    placed = ((pod, name) for pod, name in state.placed_pods() if name in names)
    guests = [pod.on_node(name) for pod, name in islice(placed, 4 * _GUESTS)]
    copy = cluster(nodes, guests)
    copy.listers = state.listers.copied(without=Pod)  # there may be very many
    for pod in guests:
        copy.listers.put(pod, Pod)
    return copy


def _check_here(
    plugin_class: type[Plugin],
    args: Any,
    gates: FeatureGates,
    state: ClusterState,
    pods: Sequence[Pod],
    random: Random,
) -> None:
    plugin = plugin_class(args, Handle(state.listers, gates))
    if not hasattr(plugin, "handle"):
        raise PluginCheckError("its constructor must call that of its base class")
    check_registrations(plugin, state, pods)
    check_queue(plugin, pods)
    if len(state):
        check_balance(plugin, random, state)
    if issubclass(plugin_class, FilterPlugin | ScorePlugin | PreFilterPlugin | PreScorePlugin):
        _Checks(plugin_class, args, gates, state, random).check(pods)


def _check_run(
    plugin_class: type[Plugin], args: Any, gates: FeatureGates, objects: Sequence[ApiObject]
) -> None:
    """Schedule with the plugin for a while; nodes come and go."""
    if is_ours(plugin_class):
        scheduler = VirtualScheduler(gates=gates)  # it is there by default
    else:
        given = {} if args is None else {plugin_class.name: msgspec.to_builtins(args)}
        scheduler = VirtualScheduler(plugin_class, args=given, gates=gates)
    try:
        scheduler.add(*(obj for obj in objects if not isinstance(obj, Pod)))
        scheduler.add(*(obj for obj in objects if isinstance(obj, Pod)))
        for name in ("added-1", "added-2"):
            scheduler.advance(_RUN_SECONDS)
            scheduler.add(random_node(Random(name), name))
        scheduler.advance(_RUN_SECONDS)
        for fault in scheduler.faults:
            if fault.plugin == plugin_class.name:
                raise PluginCheckError(fault.message)
    finally:
        scheduler.close()


class _Question:
    """A plugin's Filter or Score, prepared for one pod: its state, or why there is none."""

    def __init__(self, plugin: Plugin, point: str, pod: Pod, nodes: NodeView) -> None:
        self._plugin = plugin
        self._point = point
        self._pod = pod
        self.state: Any = None
        self.prepared: Hashable = "looks at nodes"
        """In words; must be the same for pods with equal keys."""
        self.asks = isinstance(plugin, FilterPlugin if point == "filter" else ScorePlugin)
        if point == "filter" and isinstance(plugin, PreFilterPlugin):
            answer = ask_pre_filter(plugin, pod, nodes)
            if isinstance(answer, PreFilterResult):
                self.state = answer.state
                if answer.node_names is not None:
                    self.prepared = f"names {sorted(answer.node_names)}"
            else:
                self.prepared = "skips" if answer is SKIP else "rejects the pod"
                self.asks = False
        if point == "score" and isinstance(plugin, PreScorePlugin):
            self.state = ask_pre_score(plugin, pod, nodes)
            if self.state is SKIP:
                self.prepared, self.asks = "skips", False

    def ask(self, nodes: NodeView) -> Answers:
        """What the plugin says of each node of a view."""
        plugin, names = self._plugin, nodes.names()
        if self._point == "filter":
            assert isinstance(plugin, FilterPlugin), "asked for filters only"
            verdicts = ask_filter(plugin, self._pod, nodes, self.state)
            reasons = (verdicts.reasons_of(row) for row in range(len(nodes)))
            return dict(zip(names, (sorted(r.text for r in here) for here in reasons), strict=True))
        assert isinstance(plugin, ScorePlugin), "asked for scorers only"
        scores = raw_scores(plugin, self._pod, nodes, self.state)
        return dict(zip(names, scores.tolist(), strict=True))

    def ask_row(self, nodes: NodeView, row: int) -> Any:
        """The same about one row, in plain numbers."""
        plugin = self._plugin
        assert isinstance(plugin, SingleRowMixin), "asked only if it has the mixin"
        if self._point == "filter":
            return plugin.rejects_row(self._pod, nodes, row, self.state)
        return plugin.score_row(self._pod, nodes, row, self.state)

    def normalized(self, answers: Answers) -> Answers:
        """The scores as they count."""
        plugin = self._plugin
        if not isinstance(plugin, ScorePlugin) or self._point == "filter" or not answers:
            return answers
        raw = np.array(list(answers.values()), np.int64)
        return dict(zip(answers, ask_normalize(plugin, raw, self.state).tolist(), strict=True))


class _Kept:
    """What was answered to the first pod with a key, corrected where nodes changed."""

    def __init__(self, pod: Pod, question: _Question, nodes: NodeView) -> None:
        self.pod = pod
        self.question = question
        self._generation = nodes.stamps.generation
        self.answers = question.ask(nodes) if question.asks else {}

    def refresh(self, plugin: Plugin, nodes: NodeView) -> None:
        rows = nodes.stamps.changed_since(plugin.reads, self._generation)
        self._generation = nodes.stamps.generation
        if self.question.asks:
            newer = self.question.ask(nodes.take(rows)) if len(rows) else {}
            known = self.answers | newer
            self.answers = {name: known[name] for name in nodes.names()}


class _Checks:
    """The checks over one cluster."""

    def __init__(
        self,
        plugin_class: type[Plugin],
        args: Any,
        gates: FeatureGates,
        state: ClusterState,
        random: Random,
    ) -> None:
        self._make: Callable[[Listers], Plugin] = lambda listers: plugin_class(
            args, Handle(listers, gates)
        )
        self._plugin = self._make(state.listers)
        self._state = state
        self._random = random
        self._kept: dict[tuple[str, Hashable], _Kept] = {}

    def check(self, pods: Sequence[Pod]) -> None:
        for serial in range(_EVENTS):
            for pod in pods:
                for point in ("filter", "score"):
                    self._check(point, pod)
            for part in range(_EVENTS_BETWEEN):
                random_event(self._random, self._state, serial * _EVENTS_BETWEEN + part)

    def _check(self, point: str, pod: Pod) -> None:
        before, nodes = _contents(self._state), NodeView(self._state)
        question = _Question(self._plugin, point, pod, nodes)
        answers = question.ask(nodes) if question.asks else {}
        if question.asks:
            self._check_parts(point, pod, question, answers)
            self._check_rebuilt(point, pod, answers)
            question.normalized(answers)  # an error if they are out of range then
        self._check_keys(point, pod, question, answers)
        if _contents(self._state) != before:
            raise PluginCheckError(f"asking about pod {pod.key} changed the cluster")

    def _check_parts(self, point: str, pod: Pod, question: _Question, answers: Answers) -> None:
        plugin, nodes = self._plugin, NodeView(self._state)
        # Scores that look across nodes depend on which nodes are asked about.
        if point == "score" and not plugin.row_local:
            return
        some = question.ask(nodes.take(self._some_rows(len(nodes))))
        _compare(point, pod, answers, some, "when asked about some nodes", part=True)
        for row, name in enumerate(nodes.names()):
            alone = question.ask(nodes.take(np.array([row], np.intp)))
            _compare(point, pod, answers, alone, "when asked about it alone", part=True)
            if isinstance(plugin, SingleRowMixin):
                method = "rejects_row" if point == "filter" else "score_row"
                says = bool(answers[name]) if point == "filter" else answers[name]
                single = question.ask_row(nodes, row)
                if single != says:
                    raise PluginCheckError(
                        f"{method} of pod {pod.key} says {single} of {name}, but {point} says "
                        f"{answers[name]}"
                    )

    def _check_rebuilt(self, point: str, pod: Pod, answers: Answers) -> None:
        rebuilt = _rebuilt(self._state)
        nodes = NodeView(rebuilt)
        other = _Question(self._make(rebuilt.listers), point, pod, nodes)
        anew = other.ask(nodes) if other.asks else {}
        _compare(point, pod, answers, anew, "in a newly built cluster")

    def _check_keys(self, point: str, pod: Pod, question: _Question, answers: Answers) -> None:
        plugin, nodes = self._plugin, NodeView(self._state)
        key = plugin.pod_key(pod) if is_cacheable(plugin) else None
        if key is None:
            return
        kept = self._kept.get((point, key))
        if kept is None:
            self._kept[point, key] = _Kept(pod, question, nodes)
            return
        first = f"pod {kept.pod.key}, which has the same key"
        if kept.question.prepared != question.prepared:
            raise PluginCheckError(
                f"pre_{point} of pod {pod.key}: it {question.prepared}, but it "
                f"{kept.question.prepared} for {first}"
            )
        kept.refresh(plugin, nodes)
        how = f"as kept from {first}, and asked again about nodes that changed in what it reads"
        _compare(point, pod, answers, kept.answers, how)
        right, other = question.normalized(answers), kept.question.normalized(kept.answers)
        _compare("normalize", pod, right, other, how)

    def _some_rows(self, size: int) -> Rows:
        return np.array(sorted(self._random.sample(range(size), max(1, size // 2))), np.intp)


def _compare(
    point: str, pod: Pod, right: Answers, other: Answers, how: str, *, part: bool = False
) -> None:
    names = other if part else right.keys() | other.keys()
    for name in sorted(names):
        if right.get(name) != other.get(name):
            raise PluginCheckError(
                f"{point} of pod {pod.key} says {right.get(name)} of {name} when asked about all "
                f"nodes, but {other.get(name)} {how}"
            )


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
