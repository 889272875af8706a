"""The cluster as it would be without some pods, for one attempt.

Pods that leave are not taken out of the state: putting them back would make them the latest to have
come. They are left out of the view instead. Preemption's way, plugins' states that are changed pod
by pod, would not do: it keeps upstream's inaccuracies about pods that are on their way out.
"""

from collections.abc import Iterable

from moorage.cluster.absent_pods import WithoutPods
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.framework.attempt import Attempt
from moorage.framework.filtering import filter_nodes, pre_filter
from moorage.framework.profile import Profile
from moorage.model.pod import Pod


def attempt_without(cycle: Cycle, profile: Profile, pod: Pod, gone: Iterable[Pod]) -> Attempt:
    """How every node would answer to a pod, if others had left; the cycle must keep no answers."""
    nodes = WithoutPods(cycle.state, _by_row(cycle.state, gone))
    attempt = Attempt(profile, pod, nodes, cycle.clock.now())
    attempt.nominated = cycle.nominated.ahead_of(pod, nodes)
    attempt.before = pre_filter(profile, pod, nodes)
    if attempt.before.rejection is None:
        attempt.outcome = filter_nodes(
            profile, pod, nodes, attempt.before, cycle.answers, attempt.nominated
        )
    return attempt


def _by_row(state: ClusterState, gone: Iterable[Pod]) -> dict[int, list[Pod]]:
    found: dict[int, list[Pod]] = {}
    for pod in gone:
        row = state.nodes.row_of.get(state.node_of(pod) or "")
        if row is not None:
            found.setdefault(row, []).append(pod)
    return found
