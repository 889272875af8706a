"""The fast path: the same result as asking every plugin afresh, after any events."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from framework.building import make_cycle, make_profile, make_state
from metrics.measuring import Measured, nonzero
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.profile import Profile
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from properties import strategies
from properties.events import ClusterEvents, picks
from properties.harness import effort
from properties.strategies import named

probes = st.one_of(strategies.incoming_pods, strategies.social_pods)


class EventsBetweenReplicas(ClusterEvents):
    """All events, and pods of a few kinds that come again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.profile = make_profile(self.twin.state)
        self.bodies: list[Pod] = []
        self.turn = 0

    @initialize(
        bodies=st.lists(probes, min_size=2, max_size=3),
        nodes=st.tuples(*[strategies.nodes(name) for name in strategies.NODE_NAMES[:4]]),
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
        self.twin.cycle.search.start = start

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
        if self.bodies and self.has_nodes():
            self.turn += 1
            pod = named(self.bodies[self.turn % len(self.bodies)], self.number())
            agreed(self.twin.cycle, self.profile, pod)


def agreed(cycle: Cycle, profile: Profile, pod: Pod) -> Bind | None:
    """What both ways decide, if they find a node."""
    afresh = result_of(cycle.aside(), profile, pod)
    found = result_of(cycle, profile, pod)
    assert found == afresh
    decision = found.get("decision")
    return decision if isinstance(decision, Bind) else None


def result_of(cycle: Cycle, profile: Profile, pod: Pod) -> dict[str, Any]:
    """Everything that an attempt finds out."""
    try:
        decision, attempt = cycle.attempt(profile, pod)
    except PluginError as error:
        return {"error": str(error)}
    found: dict[str, Any] = {"decision": decision}
    if attempt is not None:
        before, outcome, scores = attempt.before, attempt.outcome, attempt.scores
        found["before"] = (before.skipped, before.node_names, before.rejections, before.ran)
        if outcome is not None:
            found["asked"] = list(outcome.asked())
            found["statuses"] = [outcome.status(row) for row in range(len(attempt.nodes))]
        if scores is not None:
            found["skipped"] = scores.skipped
            found["totals"] = scores.totals.tolist()
            found["scores"] = [
                (part.plugin, part.raw.tolist(), part.weighted.tolist()) for part in scores.parts
            ]
    return found


TestBothWaysAgreeAfterAnyEvents = EventsBetweenReplicas.TestCase
TestBothWaysAgreeAfterAnyEvents.settings = effort(35, 25)


clusters = st.tuples(*[strategies.nodes(name) for name in strategies.NODE_NAMES[:6]])


@settings(max_examples=40)
@given(clusters, st.tuples(probes, probes, probes), st.lists(st.integers(0, 2), max_size=20))
def test_pods_in_runs_are_placed_as_if_each_came_alone(
    nodes: tuple[Node, ...], kinds: tuple[Pod, Pod, Pod], order: list[int]
) -> None:
    placed = []
    for reuse in (True, False):
        state = make_state(nodes)
        cycle, profile = make_cycle(state, reuse=reuse), make_profile(state)
        decisions = []
        for number, kind in enumerate(order):
            result = result_of(cycle, profile, named(kinds[kind], number))
            decision = result.get("decision")
            decisions.append(result)
            if isinstance(decision, Bind):
                state.assume(named(kinds[kind], number), decision.node_name)
        placed.append(decisions)
    assert placed[0] == placed[1]


COUNTED = (
    "scheduler_framework_extension_point_duration_seconds_count",
    "scheduler_plugin_evaluation_total",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_schedule_attempts_total",
)
LOOK = "look at the metrics"

_SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "spread": _SPREAD,
    "pinned": {"nodeSelector": {"zone": "c"}},
    "nowhere": {"nodeSelector": {"zone": "z"}},
}


def _measured(*, fast: bool) -> Measured:
    made = Measured()
    for number, zone in enumerate("aabbc"):
        made.scheduler.handlers.add_node(make_node(f"n{number}", cpu="1", labels={"zone": zone}))
    if not fast:
        made.scheduler.cycle.runner.fast_path = None
    return made


def _counts(measured: Measured) -> list[dict[str, float]]:
    return [nonzero(measured.values(name)) for name in COUNTED]


@effort(30)
@given(steps=st.lists(st.sampled_from([*KINDS, LOOK]), max_size=30))
def test_answers_that_were_kept_count_like_fresh_ones(steps: list[str]) -> None:
    fast, plain = _measured(fast=True), _measured(fast=False)
    for number, step in enumerate(steps):
        if step == LOOK:
            assert _counts(fast) == _counts(plain)
            continue
        for measured in (fast, plain):
            pod = make_pod(f"p{number}", cpu="100m", labels={"app": step}, spec=KINDS[step])
            measured.scheduler.handlers.add_pod(pod)
            measured.run()
    assert _counts(fast) == _counts(plain)
