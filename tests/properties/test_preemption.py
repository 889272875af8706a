"""Victims and the chosen node, against the naive way and against what the rules promise."""

import numpy as np
from hypothesis import assume, given

from framework.asking import plain
from framework.building import NOW, make_profile
from moorage.engine.decisions import Unschedulable
from moorage.framework.plugin import Candidate
from moorage.framework.runner import judged_together, overruled, overruled_together
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from moorage.plugins.default_preemption.columns import applies, select_victims_everywhere
from moorage.plugins.default_preemption.victims import compile_budgets, pick, select_victims
from properties import strategies
from properties.clusters import crowded_clusters
from properties.harness import Twin, effort
from properties.strategies import named
from reference.answers import Refusal
from reference.preemption import NaiveCandidate, best, candidates, message
from reference.scheduler import NaiveScheduler, change


def check_decision(twin: Twin, pod: Pod) -> None:
    naive = NaiveScheduler(twin.naive)
    assume(naive.prepare(pod).rejection is None)
    assume(all(refusal is not None for refusal in naive.refusals(pod).values()))
    outcomes = candidates(naive, pod, NOW)
    found = {n: c for n, c in outcomes.items() if isinstance(c, NaiveCandidate)}
    # Upstream calls it an error if nobody has to go; that cannot come about here.
    assert all(candidate.victims for candidate in found.values())

    decision, attempt = twin.cycle.decide(make_profile(twin.state), pod)

    assert isinstance(decision, Unschedulable)
    assert attempt is not None
    result = attempt.post_filter
    assert result is not None
    if not found:
        assert result.status.code is Code.UNSCHEDULABLE
        assert decision.nominated_node == ""
        assert decision.victims == ()
        text = message(outcomes, len(twin.naive.nodes))
        assert decision.message.endswith(f"preemption: {text}")
        return
    assert result.status.code is Code.SUCCESS
    assert {c.node_name: (list(c.victims), c.pdb_violations) for c in result.candidates} == {
        name: (c.victims, c.violations) for name, c in found.items()
    }
    choice = best(list(found.values()), NOW)
    assert decision.nominated_node in choice
    assert list(decision.victims) == found[decision.nominated_node or ""].victims
    assert decision.message.endswith(
        f"preemption: found a potential placement for pod on node {decision.nominated_node}, "
        f"preempting {len(decision.victims)} victims"
    )


@effort(120)
@given(crowded_clusters(), strategies.demanding_pods)
def test_victims_and_node_are_those_of_the_naive_preemption(twin: Twin, body: Pod) -> None:
    check_decision(twin, named(body, 1000))


@effort(120)
@given(
    crowded_clusters(plain=True),
    strategies.plain_demanding_pods,
)
def test_victims_found_in_columns_are_those_of_the_naive_preemption(twin: Twin, body: Pod) -> None:
    check_decision(twin, named(body, 1000))


@effort(90)
@given(
    crowded_clusters(plain=True),
    strategies.plain_demanding_pods,
)
def test_all_nodes_at_once_and_node_by_node_select_the_same_victims(twin: Twin, body: Pod) -> None:
    pod = named(body, 1000)
    attempt = twin.cycle.filter(make_profile(twin.state), pod)
    assume(attempt.outcome is not None and applies(attempt))
    rows = np.flatnonzero(attempt.diagnosis.resolvable_rows())
    budgets = compile_budgets(twin.state.listers.of(PodDisruptionBudget))
    together = select_victims_everywhere(attempt, rows, budgets)
    one_by_one = [select_victims(attempt, int(row), budgets) for row in rows]
    candidates_found = [found for found in one_by_one if isinstance(found, Candidate)]
    assert list(together) == candidates_found
    assert together.refusals == [found for found in one_by_one if isinstance(found, Status)]
    if candidates_found:
        assert together.best() == pick(candidates_found, NOW)


@effort(90)
@given(crowded_clusters(plain=True), strategies.plain_demanding_pods)
def test_nodes_with_nominated_pods_say_the_same_together_and_one_by_one(
    twin: Twin, body: Pod
) -> None:
    profile, pod = make_profile(twin.state), named(body, 1000)
    attempt = twin.cycle.filter(profile, pod)
    assume(attempt.outcome is not None and judged_together(attempt, profile.filter))
    nominated = attempt.nominated
    assert overruled_together(attempt, nominated) == overruled(attempt, nominated)


@effort(90)
@given(crowded_clusters(plain=True), strategies.plain_demanding_pods)
def test_no_victim_could_have_stayed(twin: Twin, body: Pod) -> None:
    pod = named(body, 1000)
    naive = NaiveScheduler(twin.naive)
    prepared = naive.prepare(pod)
    assume(prepared.rejection is None)
    _, attempt = twin.cycle.decide(make_profile(twin.state), pod)
    assume(attempt is not None and attempt.post_filter is not None)
    assert attempt is not None
    assert attempt.post_filter is not None
    for candidate in attempt.post_filter.candidates:
        check_minimal(naive, pod, candidate)


def check_minimal(naive: NaiveScheduler, pod: Pod, candidate: Candidate) -> None:
    prepared = naive.prepare(pod)
    info = naive.cluster.infos[candidate.node_name].copy()
    for victim in candidate.victims:
        assert victim.priority < pod.priority
        change(info, prepared, pod, victim, -1)
    assert naive.with_nominated(pod, info, prepared) is None, "the pod must fit without them"
    for victim in candidate.victims:
        crowded, changed = info.copy(), prepared.copy()
        change(crowded, changed, pod, victim, 1)
        assert naive.with_nominated(pod, crowded, changed) is not None, "one victim too many"


@effort(100)
@given(crowded_clusters(), strategies.demanding_pods)
def test_the_node_taken_breaks_no_more_budgets_than_another_would(twin: Twin, body: Pod) -> None:
    _, attempt = twin.cycle.decide(make_profile(twin.state), named(body, 1000))
    assume(attempt is not None and attempt.post_filter is not None)
    assert attempt is not None
    assert attempt.post_filter is not None
    result = attempt.post_filter
    assume(result.status.code is Code.SUCCESS)
    fewest = min(candidate.pdb_violations for candidate in result.candidates)
    taken = next(c for c in result.candidates if c.node_name == result.nominated_node)
    assert taken.pdb_violations == fewest


@effort(80)
@given(crowded_clusters(plain=True, nominations=False), strategies.plain_demanding_pods)
def test_a_node_that_cannot_be_freed_says_why(twin: Twin, body: Pod) -> None:
    pod = named(body, 1000)
    attempt = twin.cycle.filter(make_profile(twin.state), pod)
    assume(attempt.outcome is not None)
    naive = candidates(NaiveScheduler(twin.naive), pod, NOW)
    rows = np.flatnonzero(attempt.diagnosis.resolvable_rows())
    assert {attempt.nodes.node(int(row)).name for row in rows} == set(naive)
    for row in rows:
        expected = naive[attempt.nodes.node(int(row)).name]
        result = select_victims(attempt, int(row), [])
        if isinstance(expected, Refusal):
            assert not isinstance(result, Candidate)
            assert plain(result) == expected
