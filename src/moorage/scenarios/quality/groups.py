"""How pods fared: all of them, or those of a namespace, a priority class, a label.

Owns counts, times and shares of groups of pods, and how evenly namespaces were served.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.controllers.objects import Json
from moorage.model.resources import PODS
from moorage.scenarios.quality.lives import PodLife
from moorage.scenarios.quality.statistics import percentiles, short
from moorage.scenarios.quality.timelines import Timelines, bound


def counts_and_times(pods: Sequence[PodLife]) -> Json:
    """What became of pods, and how long they waited."""
    waited = [pod.bound - pod.created for pod in pods if pod.bound is not None]
    done = [pod.finished - pod.created for pod in pods if pod.finished is not None]
    return {
        "pods": {
            "created": len(pods),
            "placed": len(waited),
            "pending": sum(pod.bound is None and pod.gone is None for pod in pods),
            "finished": len(done),
            "preempted": sum(pod.preempted for pod in pods),
            "evicted": sum(pod.lost and not pod.preempted for pod in pods),
            "removed": sum(pod.gone is not None and pod.finished is None for pod in pods),
            "moved": moved(pods),
        },
        "waitingSeconds": percentiles(waited),
        "completionSeconds": percentiles(done),
    }


def moved(pods: Iterable[PodLife]) -> int:
    """How many pods their controllers made in place of ones that had lost their node."""
    left: dict[str, list[float]] = defaultdict(list)
    made: dict[str, list[float]] = defaultdict(list)
    for pod in pods:
        if pod.controller:
            made[pod.controller].append(pod.created)
            if pod.bound is not None and pod.finished is None and pod.leaving is not None:
                left[pod.controller].append(pod.leaving)
    found = 0
    for controller, times in left.items():
        successors = iter(sorted(made[controller]))
        for at in sorted(times):
            # Each successor stands for one pod only.
            found += next((1 for born in successors if born >= at), 0)
    return found


class Share(NamedTuple):
    """The resource of which pods had the largest share, and that share."""

    resource: str
    share: float


def shares_of(times: Timelines, pods: Iterable[PodLife]) -> Mapping[str, float]:
    """What pods had of each resource, in shares of all that nodes had to give over time."""
    pods = list(pods)
    return {
        name: times.mean_share(name, times.requested(name, bound, pods)) for name in times.resources
    }


def dominant_share(shares: Mapping[str, float]) -> Share:
    """The largest of the shares; slots for pods do not count."""
    real = {name: share for name, share in shares.items() if name != PODS}
    if not real:
        return Share("", 0.0)
    resource = max(real, key=lambda name: real[name])
    return Share(resource, real[resource])


def grouped(
    pods: Iterable[PodLife], key: Callable[[PodLife], str]
) -> Mapping[str, Sequence[PodLife]]:
    """Pods by namespace, class or label, sorted by that."""
    found: dict[str, list[PodLife]] = defaultdict(list)
    for pod in pods:
        found[key(pod)].append(pod)
    return dict(sorted(found.items()))


def group_result(times: Timelines, pods: Sequence[PodLife]) -> Json:
    """All that is told of a group."""
    shares = shares_of(times, pods)
    largest = dominant_share(shares)
    return {
        **counts_and_times(pods),
        "allocation": {name: short(share) for name, share in shares.items()},
        "dominantShare": short(largest.share),
        "dominantResource": largest.resource,
    }
