"""Pods that wait for something to happen: rejected ones, and those behind a gate.

Owns the pool and an index of it by (profile, plugin) that turned pods away, so that an event costs
nothing for the pods it cannot concern. Must not judge events or run plugins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moorage.engine.queue.observer import GATED, UNSCHEDULABLE, QueueObserver
from moorage.engine.queue.queued_pod import QueuedPodInfo
from moorage.engine.requeueing import Interest

_Rejector = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    info: QueuedPodInfo
    serial: int
    gated: bool
    """As last reported: the pod's own field may change before the pool hears of it."""
    rejectors: tuple[_Rejector, ...]
    """Where the index has the pod; its own sets may change likewise."""


class UnschedulablePods:
    """Pods that no timer of their own brings back, in order of arrival."""

    def __init__(self, observer: QueueObserver) -> None:
        self._observer = observer
        self._entries: dict[str, _Entry] = {}
        self._by_rejector: dict[_Rejector, dict[str, _Entry]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (entry.info for entry in self._entries.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """The pod of that name, if it is here."""
        entry = self._entries.get(key)
        return None if entry is None else entry.info

    def put(self, info: QueuedPodInfo, event: str) -> None:
        """Add a pod, or take note that it was changed or its gate opened or closed."""
        key = info.key
        entry = self._entries.get(key)
        if entry is None:
            self._serial += 1
            entry = self._entries[key] = _Entry(info, self._serial, info.gated, ())
            self._observer.pending_pods(_queue(info.gated), 1)
            self._observer.incoming_pods(UNSCHEDULABLE, event)
        elif entry.gated != info.gated:
            self._observer.pending_pods(_queue(entry.gated), -1)
            self._observer.pending_pods(_queue(info.gated), 1)
        entry.info, entry.gated = info, info.gated
        self._index(key, entry)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._unindex(key, entry)
        self._observer.pending_pods(_queue(entry.gated), -1)
        return entry.info

    def concerned(self, interest: Interest) -> Sequence[QueuedPodInfo]:
        """The pods an event could wake, in order of arrival."""
        if interest.wildcard:
            return list(self)
        found: dict[str, _Entry] = {}
        for rejector in interest.rejectors:
            found.update(self._by_rejector.get(rejector, {}))
        return [entry.info for entry in sorted(found.values(), key=_arrival)]

    def _index(self, key: str, entry: _Entry) -> None:
        profile = entry.info.pod.spec.scheduler_name
        rejectors = tuple((profile, plugin) for plugin in entry.info.rejectors)
        if rejectors == entry.rejectors:
            return
        self._unindex(key, entry)
        entry.rejectors = rejectors
        for rejector in rejectors:
            self._by_rejector.setdefault(rejector, {})[key] = entry

    def _unindex(self, key: str, entry: _Entry) -> None:
        for rejector in entry.rejectors:
            pods = self._by_rejector[rejector]
            del pods[key]
            if not pods:
                del self._by_rejector[rejector]


def _arrival(entry: _Entry) -> int:
    return entry.serial


def _queue(gated: bool) -> str:
    return GATED if gated else UNSCHEDULABLE
