"""The cluster as it would be without some pods, for one attempt.

Pods that leave are not taken out of the state: putting them back would make them the latest to have
come. They are left out of the view instead. Preemption's way, plugins' states that are changed pod
by pod, would not do: it keeps upstream's inaccuracies about pods that are on their way out.
"""

from collections.abc import Iterable

from moorage.cluster.absent_pods import WithoutPods
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.framework.attempt import AttemptResult
from moorage.framework.profile import Profile
from moorage.framework.runner import Runner
from moorage.model.pod import Pod


def attempt_without(cycle: Cycle, profile: Profile, pod: Pod, gone: Iterable[Pod]) -> AttemptResult:
    """How every node would answer to a pod, if others had left."""
    nodes = WithoutPods(cycle.state, _by_row(cycle.state, gone))
    attempt = AttemptResult(profile, pod, nodes, cycle.clock.now())
    attempt.nominated = cycle.nominated.ahead_of(pod, nodes)
    Runner().filter(attempt)
    return attempt


def _by_row(state: ClusterState, gone: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in gone:
        row = state.nodes.row_of.get(state.node_of(pod) or "")
        if row is not None:
            found.setdefault(row, []).append(pod)
    return found
