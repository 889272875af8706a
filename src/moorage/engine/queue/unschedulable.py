"""Pods that wait for something to happen: rejected ones, and those behind a gate.

Owns the pool and an index of it by (profile, plugin) that turned pods away, and by what the pods
are about where the plugin tells, so that an event costs nothing for the pods it cannot concern.
Must not judge events.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from moorage.engine.observer import SchedulerObserver
from moorage.engine.queue.queued_pod import UNSCHEDULABLE, QueuedPodInfo
from moorage.engine.requeueing import Interest, SeenEvent
from moorage.framework.cluster_events import Subjects
from moorage.model.pod import Pod

_Rejector = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    info: QueuedPodInfo
    serial: int
    rejectors: tuple[_Rejector, ...]
    """Where the index has the pod: its own sets may change before the pool hears of it."""
    pod: Pod
    """The version of the pod that the index knows."""


_Entries = dict[str, _Entry]


class _BySubject:
    """The pods that one plugin turned away, by what they are about; None is about anything."""

    def __init__(self, subjects: Subjects) -> None:
        self._of_pod = subjects.of_pod
        self._names_of: dict[str, Collection[str | None]] = {}
        self._pods: dict[str | None, _Entries] = {}

    def put(self, key: str, entry: _Entry) -> None:
        self.remove(key)
        subjects = self._of_pod(entry.pod)
        names = self._names_of[key] = (None,) if subjects is None else frozenset(subjects)
        for name in names:
            self._pods.setdefault(name, {})[key] = entry

    def remove(self, key: str) -> None:
        for name in self._names_of.pop(key, ()):
            pods = self._pods[name]
            del pods[key]
            if not pods:
                del self._pods[name]

    def about(self, names: Collection[str]) -> Iterator[_Entries]:
        """The pods that an event about these may concern."""
        for name in (None, *names):
            yield self._pods.get(name, {})


class _TurnedAway:
    """The pods that one plugin turned away."""

    def __init__(self) -> None:
        self.entries: _Entries = {}
        self._by_subject: dict[Subjects, _BySubject] = {}
        """Made when the first event comes that tells what it is about."""

    def put(self, key: str, entry: _Entry) -> None:
        self.entries[key] = entry
        for index in self._by_subject.values():
            index.put(key, entry)

    def remove(self, key: str) -> None:
        del self.entries[key]
        for index in self._by_subject.values():
            index.remove(key)

    def concerned(self, subjects: Subjects | None, seen: SeenEvent) -> Iterator[_Entries]:
        """The pods that a change of an object may concern."""
        names = None if subjects is None else subjects.of_event(seen.old, seen.new)
        if subjects is None or names is None:
            yield self.entries
            return
        index = self._by_subject.get(subjects)
        if index is None:
            index = self._by_subject[subjects] = _BySubject(subjects)
            for key, entry in self.entries.items():
                index.put(key, entry)
        yield from index.about(names)


class UnschedulablePods:
    """Pods that no timer of their own brings back, in order of arrival."""

    def __init__(self, observer: SchedulerObserver) -> None:
        self._observer = observer
        self._entries: dict[str, _Entry] = {}
        self._by_rejector: dict[_Rejector, _TurnedAway] = {}
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
        """Add a pod, or take note that it was changed."""
        key = info.key
        entry = self._entries.get(key)
        if entry is None:
            self._serial += 1
            entry = self._entries[key] = _Entry(info, self._serial, (), info.pod)
            self._observer.incoming_pods(UNSCHEDULABLE, event)
        entry.info = info
        self._index(key, entry)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._unindex(key, entry)
        return entry.info

    def concerned(self, interest: Interest, seen: SeenEvent) -> Sequence[QueuedPodInfo]:
        """The pods an event could wake, in order of arrival."""
        if interest.wildcard:
            return list(self)
        found: _Entries = {}
        for rejector, subjects in interest.rejectors.items():
            turned_away = self._by_rejector.get(rejector)
            if turned_away is not None:
                for entries in turned_away.concerned(subjects, seen):
                    found.update(entries)
        return [entry.info for entry in sorted(found.values(), key=lambda entry: entry.serial)]

    def _index(self, key: str, entry: _Entry) -> None:
        profile = entry.info.pod.spec.scheduler_name
        rejectors = tuple((profile, plugin) for plugin in entry.info.rejectors)
        if rejectors == entry.rejectors and entry.pod is entry.info.pod:
            return
        self._unindex(key, entry)
        entry.rejectors, entry.pod = rejectors, entry.info.pod
        for rejector in rejectors:
            self._by_rejector.setdefault(rejector, _TurnedAway()).put(key, entry)

    def _unindex(self, key: str, entry: _Entry) -> None:
        for rejector in entry.rejectors:
            turned_away = self._by_rejector[rejector]
            turned_away.remove(key)
            if not turned_away.entries:
                del self._by_rejector[rejector]
