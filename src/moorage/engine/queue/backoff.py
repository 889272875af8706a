"""Pods that may be tried again, but not yet.

Owns how long a pod waits after a failed attempt, and the two heaps it waits in: rejected pods,
which an idle scheduler may take early, and pods whose attempt broke, which must wait because
trying again at once would load an API server that may be struggling. Must not run plugins.

With early pops on (`aligned`), back-off ends count in whole seconds, so that pods which end within
one second leave together and in the order of the active queue.

Pods of groups (`groups`: the gate GenericWorkload) are never taken early. Upstream does take them,
and as they come back here after every attempt, a group that does not fit keeps its scheduler busy
without a pause; here it waits out its back-off.
"""

import math
from collections.abc import Sequence

from moorage.engine.clock import Clock
from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.pod_heap import PodHeap, SortKey
from moorage.engine.queue.queued_pod import BACKOFF, QueuedPodInfo

_NEVER_BACKED_OFF = -math.inf
_MOST_DOUBLINGS = 62
"""More would overflow upstream's 64-bit nanoseconds; any limit is reached long before."""


class BackoffQueue:
    """Pods whose back-off has not ended."""

    def __init__(
        self,
        clock: Clock,
        sort_key: SortKey,
        observer: SchedulerObserver,
        *,
        initial_seconds: float,
        max_seconds: float,
        aligned: bool,
        groups: bool = False,
    ) -> None:
        self._clock = clock
        self._observer = observer
        self.initial_seconds = initial_seconds
        self.max_seconds = max_seconds
        self._aligned = aligned
        self._groups = groups
        self.rejected = PodHeap(
            (lambda info: (self.expiration(info), sort_key(info))) if aligned else self.expiration
        )
        """The pods that may be taken early, the nearest to its end first."""
        self._broken = PodHeap(self.expiration)

    def __len__(self) -> int:
        return len(self.rejected) + len(self._broken)

    def __contains__(self, key: str) -> bool:
        return key in self.rejected or key in self._broken

    @property
    def pods(self) -> Sequence[QueuedPodInfo]:
        """All pods, per heap in the order they will leave."""
        return [*self.rejected, *self._broken]

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        return self.rejected.get(key) or self._broken.get(key)

    def expiration(self, info: QueuedPodInfo) -> float:
        """When the pod's back-off ends, in whole seconds if aligned."""
        failures = info.consecutive_errors_count or info.unschedulable_count
        if not failures or not self.max_seconds:
            return _NEVER_BACKED_OFF
        if info.backoff_expiration is None:
            doubled = self.initial_seconds * (1 << min(failures - 1, _MOST_DOUBLINGS))
            info.backoff_expiration = self._align(info.timestamp + min(doubled, self.max_seconds))
        return info.backoff_expiration

    def backing_off(self, info: QueuedPodInfo) -> bool:
        """Must the pod still wait? In the very second its back-off ends, it must."""
        return self.expiration(info) >= self._align(self._clock.now())

    def add(self, info: QueuedPodInfo, event: str) -> None:
        """A pod starts to wait."""
        patient = self._groups and info.pod.spec.scheduling_group is not None
        heap = self._broken if patient or info.failed_with_error else self.rejected
        heap.put(info)
        self._observer.incoming_pods(BACKOFF, event)

    def reorder(self, info: QueuedPodInfo) -> None:
        """A pod that is here was changed."""
        (self.rejected if info.key in self.rejected else self._broken).put(info)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out before its time."""
        return self.rejected.remove(key) or self._broken.remove(key)

    def take_all(self) -> list[QueuedPodInfo]:
        """Take every pod out, whatever its time."""
        return self.rejected.take_all() + self._broken.take_all()

    def pop_completed(self) -> Sequence[QueuedPodInfo]:
        """Take all pods whose back-off has ended."""
        completed = []
        for heap in (self.rejected, self._broken):
            while (info := heap.peek()) is not None and not self.backing_off(info):
                heap.pop()
                completed.append(info)
        return completed

    def earliest_end(self) -> float | None:
        """When the first back-off of all ends."""
        first = (heap.peek() for heap in (self.rejected, self._broken))
        return min((self.expiration(info) for info in first if info is not None), default=None)

    def _align(self, time: float) -> float:
        return math.floor(time) if self._aligned else time
