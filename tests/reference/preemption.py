"""DefaultPreemption, one node after another and one pod after another."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from reference.answers import UNRESOLVABLE, UNSCHEDULABLE, Refusal
from reference.cluster import NaiveNode
from reference.scheduler import NaiveScheduler, Prepared, change
from reference.selectors import passes, tests_of

NO_VICTIMS = Refusal(UNRESOLVABLE, ("No preemption victims found for incoming pod",))


@dataclass
class NaiveCandidate:
    """A node and whom to evict there, the most important first."""

    node_name: str
    victims: list[Pod]
    violations: int


def started(pod: Pod, now: float) -> float:
    """When a pod started; now if it has not."""
    if pod.status.start_time is None:
        return now
    return datetime.fromisoformat(pod.status.start_time).timestamp()


def by_importance(pods: Sequence[Pod], now: float) -> list[Pod]:
    """Higher priority first, then the earlier start."""
    return sorted(pods, key=lambda pod: (-pod.priority, started(pod, now)))


def violates(pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> list[bool]:
    """For each pod in turn: would its eviction overdraw a budget that protects it?

    Budgets after the first that is overdrawn are left as they are.
    """
    left = [budget.status.disruptions_allowed for budget in budgets]
    answers = []
    for pod in pods:
        overdrawn = False
        for place, budget in enumerate(budgets):
            if overdrawn:
                break
            tests = tests_of(budget.spec.selector)
            if not pod.labels or budget.namespace != pod.namespace:
                continue
            if not tests or not passes(tests, pod.labels):
                continue
            if pod.name in budget.status.disrupted_pods:
                continue
            left[place] -= 1
            overdrawn = left[place] < 0
        answers.append(overdrawn)
    return answers


def select_victims(
    scheduler: NaiveScheduler, pod: Pod, info: NaiveNode, prepared: Prepared, now: float
) -> NaiveCandidate | Refusal:
    """Take all less important pods away, then give back whom the pod can live with."""
    info, prepared = info.copy(), prepared.copy()
    potential = [other for other in info.pods.values() if other.priority < pod.priority]
    if not potential:
        return NO_VICTIMS
    for other in potential:
        change(info, prepared, pod, other, -1)
    refused = scheduler.with_nominated(pod, info, prepared)
    if refused is not None:
        return refused[1]
    potential = by_importance(potential, now)
    budgets = scheduler.cluster.all_of(PodDisruptionBudget)
    breaking = dict(zip([p.uid for p in potential], violates(potential, budgets), strict=True))
    victims: list[Pod] = []
    for wanted in (True, False):
        for other in potential:
            if breaking[other.uid] is not wanted:
                continue
            change(info, prepared, pod, other, 1)
            if scheduler.with_nominated(pod, info, prepared) is not None:
                change(info, prepared, pod, other, -1)
                victims.append(other)
    violations = sum(breaking[victim.uid] for victim in victims)
    return NaiveCandidate(info.present().name, by_importance(victims, now), violations)


def candidates(
    scheduler: NaiveScheduler, pod: Pod, now: float
) -> dict[str, NaiveCandidate | Refusal]:
    """The outcome on every node whose refusal eviction might cure."""
    prepared = scheduler.prepare(pod)
    outcomes: dict[str, NaiveCandidate | Refusal] = {}
    for name, refused in scheduler.refusals(pod).items():
        if refused is not None and refused[1].code == UNSCHEDULABLE:
            info = scheduler.cluster.infos[name]
            outcomes[name] = select_victims(scheduler, pod, info, prepared, now)
    return outcomes


def best(found: Sequence[NaiveCandidate], now: float) -> list[str]:
    """The nodes that no rule tells apart any more; upstream takes one of them."""
    left = list(found)
    for rule in (_violations, _highest, _sum, _count):
        smallest = min(rule(candidate) for candidate in left)
        left = [candidate for candidate in left if rule(candidate) == smallest]
    latest = max(_longest_running(candidate, now) for candidate in left)
    return [c.node_name for c in left if _longest_running(c, now) == latest]


def _violations(candidate: NaiveCandidate) -> int:
    return candidate.violations


def _highest(candidate: NaiveCandidate) -> int:
    return max(pod.priority for pod in candidate.victims)


def _sum(candidate: NaiveCandidate) -> int:
    return sum(pod.priority + 2**31 for pod in candidate.victims)


def _count(candidate: NaiveCandidate) -> int:
    return len(candidate.victims)


def _longest_running(candidate: NaiveCandidate, now: float) -> float:
    """When the longest running of the most important victims started."""
    highest = _highest(candidate)
    return min(started(pod, now) for pod in candidate.victims if pod.priority == highest)


def message(outcomes: dict[str, NaiveCandidate | Refusal], nodes: int) -> str:
    """The sentence about a preemption that helps nowhere."""
    counts: dict[str, int] = {}
    for outcome in outcomes.values():
        assert isinstance(outcome, Refusal), "there is a candidate"
        for reason in outcome.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    if nodes > len(outcomes):
        unhelpful = "Preemption is not helpful for scheduling"
        counts[unhelpful] = counts.get(unhelpful, 0) + nodes - len(outcomes)
    parts = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(parts)}."
