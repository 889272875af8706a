"""Which candidate node to take: the rules in their order, each only breaking ties of the last."""

from collections.abc import Sequence

from moorage.framework.plugin import Candidate
from moorage.plugins.default_preemption.importance import start_of

# Priorities may be negative; shifted above zero, fewer pods always weigh less than more.
PRIORITY_SHIFT = 2**31


def pick(candidates: Sequence[Candidate], now: float) -> Candidate:
    """The candidate that hurts least; of equals the first."""

    def harm(candidate: Candidate) -> tuple[int, int, int, int, float]:
        victims = candidate.victims
        highest = max(pod.priority for pod in victims)
        longest_run = min(start_of(pod, now) for pod in victims if pod.priority == highest)
        return (
            candidate.pdb_violations,
            victims[0].priority,
            sum(pod.priority + PRIORITY_SHIFT for pod in victims),
            len(victims),
            -longest_run,
        )

    return min(candidates, key=harm)
