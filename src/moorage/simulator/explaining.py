"""One pod picked out of a schedule and explained.

Owns finding the pod by what a person typed and watching for its decisions while all pods are
placed, so that it is explained in the cluster it was really decided in.
"""

from collections.abc import Sequence

from moorage.engine.decisions import Decision
from moorage.errors import InputError
from moorage.framework.attempt import Attempt
from moorage.framework.profile import Profile
from moorage.model.pod import Pod
from moorage.simulator.explanation import Explanation, explain
from moorage.simulator.offline import Schedule, place_all
from moorage.simulator.world import World


def place_and_explain(world: World, name: str) -> tuple[Schedule, tuple[Explanation, ...]]:
    """Place all waiting pods; explain one of them.

    There are two explanations if the pod preempted others: the attempt that failed, and the one
    after the eviction. Of a pod that was tried several times, the last time counts.
    """
    wanted = find_pod(world, name)
    told: list[Explanation] = []

    def observe(profile: Profile, pod: Pod, decision: Decision, attempt: Attempt | None) -> None:
        if pod.uid != wanted.uid:
            return
        if not (told and told[-1].nominated_node):
            told.clear()
        told.append(explain(world.cycle, profile, pod, decision, attempt))

    schedule = place_all(world, observe)
    if not told:
        record = next(pod for pod in schedule.pods if pod.key == wanted.key)
        told.append(Explanation(wanted.key, wanted.spec.scheduler_name, record.message))
    return schedule, tuple(told)


def find_pod(world: World, name: str) -> Pod:
    """The waiting pod called `namespace/name`, or just `name` if there is one such pod."""
    found = _named(world.pending, name)
    if len(found) == 1:
        return found[0]
    if found:
        keys = ", ".join(sorted(pod.key for pod in found))
        raise InputError(f"several waiting pods are called {name}: {keys}; name one in full")
    for pod, node in world.state.placed_pods():
        if name in (pod.key, pod.name):
            raise InputError(
                f"pod {pod.key} is on node {node} already; only pods without a node are decided"
            )
    raise InputError(
        f"pod {name} is not among the {len(world.pending)} pods without a node; "
        "pods are named NAMESPACE/NAME, or NAME where that is unique"
    )


def _named(pods: Sequence[Pod], name: str) -> list[Pod]:
    return [pod for pod in pods if name in (pod.key, pod.name)]
