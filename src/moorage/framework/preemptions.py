"""Preemptions under way: the preemptors, and the victims that leave for them.

Owns what is known between the decision and the watch event that shows a victim terminating or
gone. Must not decide who is evicted, and sends nothing.
"""

from collections.abc import Iterable, Sequence

from moorage.cluster.listers import Lister
from moorage.model.pod import Pod


class Preemptions:
    """All preemptions of one scheduler; preemptors (pods or pod groups) and victims by uid."""

    def __init__(self) -> None:
        self._last_victims: dict[str, Pod | None] = {}
        self._leaving: dict[str, list[Pod]] = {}

    def __bool__(self) -> bool:
        """Is any preemption under way?"""
        return bool(self._last_victims)

    def begin(self, preemptor: str) -> None:
        """Victims are about to be evicted."""
        self._last_victims[preemptor] = None

    def await_last(self, preemptor: str, victim: Pod) -> None:
        """All victims but this one are evicted."""
        self._last_victims[preemptor] = victim

    def end(self, preemptor: str) -> None:
        """The victims are evicted, or that has failed."""
        self._last_victims.pop(preemptor, None)

    def is_running(self, preemptor: str, pods: Lister[Pod]) -> bool:
        """Must the preemptor wait?

        Not once the watch has shown that the last victim leaves, even if the answer to its
        deletion is still to come: that event is the one that wakes the preemptor.
        """
        if preemptor not in self._last_victims:
            return False
        last = self._last_victims[preemptor]
        return last is None or is_staying(last, pods)

    def choose(self, victims: Iterable[Pod], waiting: Sequence[Pod]) -> tuple[Pod, ...]:
        """Note that waiting pods count on victims to leave; returns those still to be evicted."""
        chosen = []
        for victim in victims:
            if victim.terminating:
                continue
            if victim.uid not in self._leaving:
                self._leaving[victim.uid] = []
                chosen.append(victim)
            self._leaving[victim.uid] += waiting
        return tuple(chosen)

    def is_leaving(self, pod: Pod) -> bool:
        """Is a pod chosen as a victim, and not yet seen terminating?"""
        return pod.uid in self._leaving

    def left(self, victim: Pod) -> None:
        """A pod is terminating or gone, or no longer a victim."""
        self._leaving.pop(victim.uid, None)

    def stays(self, victim: Pod) -> Sequence[Pod]:
        """A pod could not be evicted; returns the pods that waited for it."""
        return self._leaving.pop(victim.uid, ())


def is_staying(pod: Pod, pods: Lister[Pod]) -> bool:
    """Is this very pod, not a later one of the same name, still there and not terminating?"""
    known = pods.get(pod.name, pod.namespace)
    return known is not None and known.uid == pod.uid and not known.terminating
