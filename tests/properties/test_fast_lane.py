"""The short way to a node leads to the very node that the plain path finds, after any events."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from framework.building import make_profile
from moorage.cluster.view import NodeView
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.filtering import pre_filter
from moorage.framework.profile import Profile
from moorage.framework.status import SKIP
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies as given
from properties.events import ClusterEvents, picks
from properties.harness import effort
from properties.strategies import named

probes = st.one_of(given.incoming_pods, given.social_pods)


class EventsBetweenReplicas(ClusterEvents):
    """All events, and pods of a few kinds that come again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = make_profile(self.twin.state)
        self.bodies: list[Pod] = []
        self.turn = 0

    @initialize(
        bodies=st.lists(probes, min_size=2, max_size=3),
        nodes=st.tuples(*[given.nodes(name) for name in given.NODE_NAMES[:4]]),
    )
    def start_with_some_kinds_and_nodes(self, bodies: list[Pod], nodes: tuple[Node, ...]) -> None:
        self.bodies = bodies
        for node in nodes:
            self.twin.put_node(node)

    @rule(body=probes, pick=picks)
    def another_kind(self, body: Pod, pick: int) -> None:
        self.bodies[pick % len(self.bodies)] = body

    @rule(start=st.integers(0, 9))
    def search_from_elsewhere(self, start: int) -> None:
        """As after a pod that could go to a few nodes only."""
        self.twin.cycle._search.start = start

    @precondition(ClusterEvents.has_nodes)
    @rule(pick=picks, copies=st.integers(1, 4))
    def place_replicas(self, pick: int, copies: int) -> None:
        for _ in range(copies):
            pod = named(self.bodies[pick % len(self.bodies)], self.number())
            decision = agreed(self.twin.cycle, self.profile, pod)
            if decision is not None:
                self.twin.assume(pod, decision.node_name)

    @invariant()
    def both_ways_agree(self) -> None:
        if not self.bodies or not self.has_nodes():
            return
        self.turn += 1
        pod = named(self.bodies[self.turn % len(self.bodies)], self.number())
        agreed(self.twin.cycle, self.profile, pod)
        nodes = NodeView(self.twin.state)
        shortcuts_agree(self.profile, nodes, pod, self.turn)
        idle_plugins_are_silent(self.profile, nodes, pod)


def agreed(cycle: Cycle, profile: Profile, pod: Pod) -> Bind | None:
    """What both ways decide, if they find a node."""
    quick = cycle.choose(profile, pod)
    try:
        decision, _ = cycle.attempt(profile, pod)
    except PluginError:
        assert quick is None, "the plain path met an error"
        return None
    if quick is not None:
        assert quick == decision
    return decision if isinstance(decision, Bind) else None


def shortcuts_agree(profile: Profile, nodes: NodeView, pod: Pod, turn: int) -> None:
    """Forms of an answer that exist for speed equal the answer that they stand for."""
    before = pre_filter(profile, pod, nodes)
    if before.rejection is not None:
        return
    row = turn % len(nodes)
    for plugin in profile.filter:
        if plugin.name in before.skipped:
            continue
        state = before.states.get(plugin.name)
        verdicts = plugin.filter(pod, nodes, state)
        try:
            refused = plugin.refused(pod, nodes, state)
        except PluginError:
            continue
        assert np.array_equal(refused, verdicts.rejected), plugin.name
        if plugin.row_local:
            assert plugin.refuses(pod, nodes, row, state) == refused[row], plugin.name
    states = {one.name: one.pre_score(pod, nodes) for one in profile.pre_score}
    for scorer in profile.score:
        state = states.get(scorer.name)
        if state is SKIP:
            continue
        scores = scorer.score(pod, nodes, state)
        if scorer.is_silent(pod, nodes):
            assert not scores.any(), scorer.name
        if scorer.row_local:
            assert scorer.score_row(pod, nodes, row, state) == scores[row], scorer.name


def idle_plugins_are_silent(profile: Profile, nodes: NodeView, pod: Pod) -> None:
    """Whoever has nothing to say says so, when asked."""
    before = pre_filter(profile, pod, nodes)
    for plugin in profile.pre_filter:
        if plugin.name in before.ran and plugin.idle_for(pod):
            assert plugin.name in before.skipped, plugin.name
    for scorer in profile.pre_score:
        if scorer.idle_for(pod):
            assert scorer.pre_score(pod, nodes) is SKIP, scorer.name
    for one in profile.score:
        if one.idle_for(pod):
            assert not one.score(pod, nodes, None).any(), one.name


TestBothWaysAgreeAfterAnyEvents = EventsBetweenReplicas.TestCase
TestBothWaysAgreeAfterAnyEvents.settings = effort(35, 25)
