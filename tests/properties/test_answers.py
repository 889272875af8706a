"""After any events the plugins say what the naive ones say, however they are asked.

Kept answers equal fresh ones, the whole view equals its parts, per-node plugins equal column
plugins, and pods go where the naive scheduler puts them.
"""

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from framework.asking import Asked, refusals
from framework.building import make_profile, only
from moorage.cluster.view import NodeView
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind, Unschedulable
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.guard import raw_scores
from moorage.framework.plugin import PreScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.runner import Runner
from moorage.framework.status import SKIP
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies as given
from properties.events import ClusterEvents, picks, places
from properties.harness import ask, effort, fresh_cycle, rebuilt
from properties.strategies import named
from properties.twins import FitByNode, TaintsByNode
from reference.answers import Skip
from reference.cluster import NaiveCluster, ports_of
from reference.scheduler import FILTERS, WEIGHTS, NaiveScheduler

IN_COLUMNS = ("TaintToleration", "NodeResourcesFit")
BY_NODE = ("TaintsByNode", "FitByNode")
TWINS = (TaintsByNode, FitByNode)


probes = st.one_of(given.incoming_pods, given.social_pods)
"""Pods that ask where they could go."""


class EventsBetweenPods(ClusterEvents):
    """All events, and a few pods that ask again after each of them."""

    def __init__(self) -> None:
        super().__init__()
        state = self.twin.state
        self.naive = NaiveScheduler(self.twin.naive)
        self.profile = make_profile(state)
        self.in_columns = make_profile(state, only(*IN_COLUMNS))
        self.by_node = make_profile(state, only(*BY_NODE), TWINS)
        self.probes: list[Pod] = []
        self.turn = 0

    @initialize(
        bodies=st.lists(probes, min_size=2, max_size=3),
        nodes=st.tuples(*[given.nodes(name) for name in given.NODE_NAMES[:4]]),
    )
    def start_with_some_pods_and_nodes(self, bodies: list[Pod], nodes: tuple[Node, ...]) -> None:
        self.probes = [named(body, self.number()) for body in bodies]
        for node in nodes:
            self.twin.put_node(node)

    @rule(body=probes, pick=picks)
    def ask_about_another_pod(self, body: Pod, pick: int) -> None:
        self.probes[pick % len(self.probes)] = named(body, self.number())

    @rule(body=probes, pick=picks, where=places)
    def ask_about_a_pod_that_names_its_node(self, body: Pod, pick: int, where: str) -> None:
        self.probes[pick % len(self.probes)] = named(body, self.number(), where)

    @precondition(ClusterEvents.has_nodes)
    @rule(body=given.incoming_pods, copies=st.integers(1, 3), nominated=places)
    def schedule_replicas(self, body: Pod, copies: int, nominated: str) -> None:
        for copy in range(copies):
            pod = named(body, self.number(), nominated=nominated if copy == 0 else "")
            expected = self.naive.place(pod)
            decision, _ = self.twin.cycle.decide(self.profile, pod)
            if expected is None:
                assert isinstance(decision, Unschedulable)
            else:
                assert isinstance(decision, Bind)
                assert decision.node_name == expected
                self.twin.assume(pod, decision.node_name)

    @invariant()
    def answers_agree(self) -> None:
        if not self.probes or not self.has_nodes():
            return
        self.turn += 1
        # All probes get older with each event, but only one of them asks.
        pod = self.probes[self.turn % len(self.probes)]
        asked = ask(self.twin.cycle, self.profile, pod)
        agrees_with_naive(asked, self.naive, pod)
        fresh = fresh_cycle(self.twin.state, self.twin.cycle)
        assert asked == ask(fresh, self.profile, pod), "kept answers differ from fresh ones"
        self.agrees_with_a_new_cluster(asked, pod)
        parts_agree(self.profile, NodeView(self.twin.state), pod, self.turn)
        forms_agree(self.twin.cycle, self.in_columns, self.by_node, pod)

    def agrees_with_a_new_cluster(self, asked: Asked, pod: Pod) -> None:
        state = rebuilt(self.twin.naive)
        fresh = fresh_cycle(state, self.twin.cycle)
        anew = ask(fresh, make_profile(state), pod)
        if _ports_have_history(self.twin.naive):
            return
        assert asked == anew, "the answers depend on history"


def _ports_have_history(naive: NaiveCluster) -> bool:
    """Did a pod take a port away that another pod still has?"""
    return any(
        info.ports != {port for pod in info.pods.values() for port in ports_of(pod)}
        for info in naive.infos.values()
        if info.node is not None
    )


def agrees_with_naive(asked: Asked, naive: NaiveScheduler, pod: Pod) -> None:
    """PreFilter, every filter, the first refusals and every score."""
    prepared = naive.prepare(pod)
    assert asked.rejection == prepared.rejection
    if prepared.rejection is not None:
        return
    assert asked.node_names == prepared.node_names
    assert asked.skipped & set(FILTERS) == prepared.skipped
    for plugin in FILTERS:
        if plugin in prepared.skipped:
            assert plugin not in asked.by_plugin
            continue
        expected = {
            name: naive.refusal_by(plugin, pod, naive.cluster.infos[name], prepared)
            for name in naive.cluster.nodes
        }
        assert asked.by_plugin[plugin] == expected, plugin
    assert asked.first == naive.refusals(pod)
    feasible = [name for name, refusal in asked.first.items() if refusal is None]
    if feasible:
        scores_agree(asked, naive, pod, feasible)
    else:
        assert asked.message == fit_error(asked, len(naive.cluster.nodes), prepared.naming)


def scores_agree(asked: Asked, naive: NaiveScheduler, pod: Pod, feasible: list[str]) -> None:
    for plugin, scored in naive.scores(pod, feasible).items():
        if isinstance(scored, Skip):
            assert plugin not in asked.raw, plugin
            continue
        assert asked.raw[plugin] == scored.raw, plugin
        weight = WEIGHTS[plugin]
        weighted = {name: score * weight for name, score in scored.normalized.items()}
        assert asked.weighted[plugin] == weighted, plugin
    assert asked.totals == naive.totals(pod, feasible)


def fit_error(asked: Asked, nodes: int, naming: str) -> str:
    """Upstream's sentence, from the first refusals."""
    counts: dict[str, int] = {}
    for refused in asked.first.values():
        assert refused is not None
        for reason in refused[1].reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if asked.node_names is not None and nodes > len(asked.first):
        counts[f"node(s) didn't satisfy plugin(s) [{naming}]"] = nodes - len(asked.first)
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."


def parts_agree(profile: Profile, nodes: NodeView, pod: Pod, seed: int) -> None:
    """Some rows, and one row at a time, are judged as in the whole view."""
    attempt = AttemptResult(profile, pod, nodes, 0.0)
    try:
        Runner().filter(attempt)
    except PluginError:
        return
    before = attempt.before
    if before.rejection is not None:
        return
    size = len(nodes)
    some = np.flatnonzero(np.random.default_rng(seed).random(size) < 0.5)
    for plugin in profile.filter:
        if plugin.name in before.skipped:
            continue
        state = before.states.get(plugin.name)
        answers = refusals(plugin.filter(pod, nodes, state))
        part = refusals(plugin.filter(pod, nodes.take(some), state))
        assert part == [answers[row] for row in some], plugin.name
        for row in range(size):
            alone = refusals(plugin.filter(pod, nodes.take(np.array([row])), state))
            assert alone == [answers[row]], plugin.name
    for scorer in profile.score:
        if not scorer.row_local:
            continue
        state = scorer.pre_score(pod, nodes) if isinstance(scorer, PreScorePlugin) else None
        if state is SKIP:
            continue
        scores = raw_scores(scorer, pod, nodes, state)
        assert raw_scores(scorer, pod, nodes.take(some), state).tolist() == scores[some].tolist()


def forms_agree(cycle: Cycle, in_columns: Profile, by_node: Profile, pod: Pod) -> None:
    """The per-node forms refuse and score as the column forms do."""
    columns, nodes = ask(cycle, in_columns, pod), ask(cycle, by_node, pod)
    names = dict(zip(IN_COLUMNS, BY_NODE, strict=True))
    for name, refused in columns.first.items():
        theirs = nodes.first[name]
        assert (refused is None) is (theirs is None)
        if refused is not None and theirs is not None:
            assert theirs[0] == names[refused[0]]
            assert theirs[1].reasons == refused[1].reasons[:1]
    for plugin, other in names.items():
        assert columns.raw.get(plugin) == nodes.raw.get(other)
        if plugin in columns.weighted:
            assert columns.weighted[plugin] == nodes.weighted[other]


TestAnswersAgreeAfterAnyEvents = EventsBetweenPods.TestCase
TestAnswersAgreeAfterAnyEvents.settings = effort(25, 25)
