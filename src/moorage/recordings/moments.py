"""States of a recorded cluster in which its scheduler may have decided about a pod.

A recording tells when a binding was seen. The decision was earlier: the scheduler knew of its own
decisions at once, though their bindings overtake one another, and of what others did a little
later. A pod that was deleted before its binding leaves no trace at all, though it took its place.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from moorage.model.pod import Pod
from moorage.recordings.followed import FollowedCluster, RecordedStep

NEAR_SECONDS = 5.0
NEAR_STEPS = 400
"""So long, and so many, bindings may be on their way, or changes not yet known."""
_MOST_LOST = 16

Choose = Callable[[Pod], str]
"""The node that a pod gets as the cluster is; empty for none."""


class OtherMoment(NamedTuple):
    """Another state: what is otherwise, and the steps there."""

    description: str
    steps: list[RecordedStep]


class _Bound(NamedTuple):
    """A step to or back from a binding, and the pod as it waited."""

    step: RecordedStep
    pod: Pod


_Order = tuple[list[str], list[RecordedStep]]
"""What is otherwise, and the bindings to make or to undo."""
_OTHER_ORDER = ["another order of bindings on their way"]


class Moments:
    """The states for one pod, whose binding is the next step."""

    def __init__(
        self,
        cluster: FollowedCluster,
        coming: Iterable[RecordedStep],
        at: float,
        pod: Pod,
        choose: Choose,
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._choose = choose
        near = [step for step in coming if step.at <= at + NEAR_SECONDS]
        past = _recent(cluster.past, at, pod)
        self._facts = [step.undone() for step in past if step.binding is None]
        """Of others, the latest first."""
        self._seen = [_Bound(step.undone(), one) for step in past if (one := step.binding)]
        self._coming = [
            _Bound(step, one)
            for step in near
            if (one := step.binding) and one.uid != pod.uid and cluster.waits(one)
        ]
        self._counts = {0, *(n for n, step in enumerate(self._facts, 1) if _matters(step))}
        self._near = [
            *((one, True) for one in self._seen),
            *((one, False) for one in self._coming),
        ]
        # A pod whose end is told in two steps is lost at the first.
        withdrawn = [
            (step.number, one) for step in (*reversed(past), *near) if (one := step.withdrawal)
        ]
        bound = {one.pod.uid for one in self._coming}
        self._withdrawn = [
            (number, one) for number, one in withdrawn if one.uid not in bound | {pod.uid}
        ]

    def likely(self) -> Iterator[OtherMoment]:
        """A few of them: everything is known, or nothing since the pod came."""
        for count in sorted({0, len(self._facts)}):
            yield from self._knowing_less(count)

    def all(self) -> Iterator[OtherMoment]:
        """All of them, the likely ones first."""
        yield from self.likely()
        for count in range(len(self._facts) + 1):
            yield from self._knowing_less(count, thorough=count in self._counts)

    def _knowing_less(self, count: int, *, thorough: bool = False) -> Iterator[OtherMoment]:
        """The states in which so many of the latest changes were not known."""
        unknown = self._facts[:count]
        first_unknown = unknown[-1].number if unknown else math.inf
        unsaid = [f"{count} changes not yet known"] if count else []
        orders = self._orders(self._pod, first_unknown, thorough=thorough)
        found: list[_Order] = [([], []), *orders]
        for order, moved in found:
            if order or unsaid:
                yield OtherMoment(", ".join([*order, *unsaid]), [*unknown, *moved])
        lost = self._lost(unknown, first_unknown)
        if lost:
            text = f"{len(lost)} pods on their way that were deleted"
            for order, moved in found:
                yield OtherMoment(", ".join([*order, *unsaid, text]), [*unknown, *moved, *lost])

    def _orders(
        self, pod: Pod, first_unknown: float, *, thorough: bool = False
    ) -> Iterator[_Order]:
        """Which bindings on their way may have been decided before a pod, and which after it.

        The queue was empty at some time, and all that had come until then was decided; since then
        the pods were taken in the order of the queue, up to some place when this one came.
        """
        arrival, turn = self._cluster.arrival, self._cluster.turn
        near = [one.pod for one in (*self._seen, *self._coming) if arrival(one.pod) < arrival(pod)]
        cuts = [(arrival(pod), (-math.inf,)), ((0,), turn(pod)), (arrival(pod), turn(pod))]
        if thorough:
            places = sorted({turn(pod), *(turn(one) for one in near if turn(one) > turn(pod))})
            cuts += [(last, place) for last in sorted(map(arrival, near)) for place in places]
        tried = set()
        for last, place in cuts:
            later: list[RecordedStep] = []
            earlier: list[RecordedStep] = []
            for bound, is_seen in self._near:
                decided = arrival(bound.pod) <= last or turn(bound.pod) <= place
                decided = decided and arrival(bound.pod)[0] < first_unknown
                if decided is not is_seen and bound.pod is not pod:
                    (later if is_seen else earlier).append(bound.step)
            for moved in ([*later, *earlier], later, earlier)[: 3 if place == turn(pod) else 1]:
                numbers = tuple(step.number for step in moved)
                if moved and numbers not in tried:
                    tried.add(numbers)
                    yield _OTHER_ORDER, moved
        if thorough:
            yield from self._overtaken(first_unknown)

    def _overtaken(self, first_unknown: float) -> Iterator[_Order]:
        """Bindings that overtook this one, or that this one overtook, whatever the queue says.

        A pod that comes out of back-off may be decided after one that came later.
        """
        seen = [one.step for one in self._seen]
        arrival = self._cluster.arrival
        coming = [one.step for one in self._coming if arrival(one.pod)[0] < first_unknown]
        for steps in (seen, coming):
            for count in range(1, len(steps) + 1):
                yield _OTHER_ORDER, steps[:count]
            for step in steps[1:]:
                yield _OTHER_ORDER, [step]

    def _lost(self, unknown: Sequence[RecordedStep], first_unknown: float) -> list[RecordedStep]:
        """Places of pods that were decided before this one, and deleted before they were bound."""
        arrival = self._cluster.arrival
        lost = {
            pod.uid: pod
            for number, pod in self._withdrawn
            if (number >= first_unknown or self._cluster.waits(pod))
            and arrival(pod) < arrival(self._pod)
        }
        placed: list[RecordedStep] = []
        for pod in sorted(lost.values(), key=arrival)[:_MOST_LOST]:
            moved = next((steps for _, steps in self._orders(pod, first_unknown)), [])
            with self._cluster.otherwise([*unknown, *moved, *placed]):
                node = self._choose(pod)
            if node:
                placed.append(RecordedStep(0.0, pod, pod.on_node(node)))
        return placed


def _matters(undone: RecordedStep) -> bool:
    """Was it more than a pod that came, or changed while it waited?"""
    pod = undone.after or undone.before
    withdrawn = undone.undone().withdrawal is not None
    return withdrawn or not isinstance(pod, Pod) or bool(pod.spec.node_name)


def _recent(past: Iterable[RecordedStep], at: float, pod: Pod) -> list[RecordedStep]:
    """The latest steps since the pod came or changed, the latest first."""
    found: list[RecordedStep] = []
    for step in reversed(list(past)):
        after = step.after
        if step.at < at - NEAR_SECONDS or len(found) >= NEAR_STEPS:
            break
        if isinstance(after, Pod) and after.uid == pod.uid:
            break
        found.append(step)
    return found
