"""Pods that are being tried, and what happened in the cluster meanwhile.

Owns one list of events in order of arrival, and for each popped pod the place in the list where
its attempt began: when the pod comes back, everything after that place may have concerned it.
Must not judge events; that is `engine.requeueing`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moorage.engine.events import label
from moorage.engine.observer import POD_POPPED, SchedulerObserver
from moorage.engine.requeueing import SeenEvent
from moorage.model.pod import Pod


class _Started(NamedTuple):
    pod: Pod
    position: int
    """How many events had ever been recorded when the attempt began."""


class InFlight:
    """Popped pods by uid, and the events since the oldest of them was popped."""

    def __init__(self, observer: SchedulerObserver) -> None:
        self._observer = observer
        # In order of popping, so that the first one's position is the smallest.
        self._pods: dict[str, _Started] = {}
        self._events: list[SeenEvent] = []
        self._forgotten = 0
        """How many events were recorded before those in the list."""

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    @property
    def entries(self) -> int:
        """How many pods and events there are, which upstream keeps in one list."""
        return len(self._pods) + len(self._events)

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods as they were when popped."""
        return [started.pod for started in self._pods.values()]

    def start(self, pod: Pod) -> None:
        """A pod is being tried from now on; it must not be in flight yet."""
        self._pods[pod.uid] = _Started(pod, self._forgotten + len(self._events))
        self._observer.in_flight_events(POD_POPPED, 1)

    def record(self, seen: SeenEvent) -> None:
        """Keep an event for the pods in flight, if there are any."""
        if self._pods:
            self._events.append(seen)
            self._observer.in_flight_events(label(seen.event), 1)

    def since_start(self, uid: str) -> Sequence[SeenEvent] | None:
        """What happened since a pod was popped; None if it is not in flight."""
        started = self._pods.get(uid)
        return None if started is None else self._events[started.position - self._forgotten :]

    def done(self, uid: str) -> None:
        """The attempt is over, and events that only this pod could ask for are forgotten."""
        if self._pods.pop(uid, None) is None:
            return
        oldest = next(iter(self._pods.values()), None)
        forgettable = len(self._events) if oldest is None else oldest.position - self._forgotten
        if forgettable:
            for seen in self._events[:forgettable]:
                self._observer.in_flight_events(label(seen.event), -1)
            del self._events[:forgettable]
            self._forgotten += forgettable
        self._observer.in_flight_events(POD_POPPED, -1)
