"""Entities that wait for something to happen: rejected ones, and those behind a gate.

Owns the pool and an index of it by (profile, plugin) that turned pods away, and by what the pods
are about where the plugin tells, so that an event costs nothing for those it cannot concern.
Must not judge events.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from moorage.engine.queue.entities import QueuedEntity, QueuedPodInfo
from moorage.engine.requeueing import Interest, SeenEvent
from moorage.framework.cluster_events import Subjects
from moorage.model.pod import Pod

_Rejector = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    entity: QueuedEntity
    serial: int
    rejectors: tuple[_Rejector, ...] = ()
    """Where the index has it: its pods' sets may change before the pool hears of it."""
    pod: Pod | None = None
    """The version that the index knows, if it is a single pod."""


_Entries = dict[str, _Entry]


class _BySubject:
    """What one plugin turned away, by what the pods are about; None is about anything."""

    def __init__(self, subjects: Subjects) -> None:
        self._of_pod = subjects.of_pod
        self._names_of: dict[str, Collection[str | None]] = {}
        self._entries: dict[str | None, _Entries] = {}

    def put(self, key: str, entry: _Entry) -> None:
        self.remove(key)
        names: set[str | None] = set()
        for info in entry.entity.infos:
            subjects = self._of_pod(info.pod)
            names.update((None,) if subjects is None else subjects)
        self._names_of[key] = names
        for name in names:
            self._entries.setdefault(name, {})[key] = entry

    def remove(self, key: str) -> None:
        for name in self._names_of.pop(key, ()):
            entries = self._entries[name]
            del entries[key]
            if not entries:
                del self._entries[name]

    def about(self, names: Collection[str]) -> Iterator[_Entries]:
        """Those that an event about these may concern."""
        for name in (None, *names):
            yield self._entries.get(name, {})


class _TurnedAway:
    """What one plugin turned away."""

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
        """Those that a change of an object may concern."""
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


class UnschedulableEntities:
    """Entities that no timer of their own brings back, in order of arrival."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._by_rejector: dict[_Rejector, _TurnedAway] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (entry.entity for entry in self._entries.values())

    def get(self, key: str) -> QueuedEntity | None:
        """The entity of that key, if it is here."""
        entry = self._entries.get(key)
        return None if entry is None else entry.entity

    def put(self, entity: QueuedEntity) -> bool:
        """Add an entity, or take note that it was changed; false if it was here."""
        key = entity.key
        entry = self._entries.get(key)
        is_new = entry is None
        if entry is None:
            self._serial += 1
            entry = self._entries[key] = _Entry(entity, self._serial)
        entry.entity = entity
        self._index(key, entry)
        return is_new

    def remove(self, key: str) -> QueuedEntity | None:
        """Take an entity out."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._unindex(key, entry)
        return entry.entity

    def concerned(self, interest: Interest, seen: SeenEvent) -> Sequence[QueuedEntity]:
        """The entities an event could wake, in order of arrival."""
        if interest.wildcard:
            return list(self)
        found: _Entries = {}
        for rejector, subjects in interest.rejectors.items():
            turned_away = self._by_rejector.get(rejector)
            if turned_away is not None:
                for entries in turned_away.concerned(subjects, seen):
                    found.update(entries)
        return [entry.entity for entry in sorted(found.values(), key=lambda entry: entry.serial)]

    def _index(self, key: str, entry: _Entry) -> None:
        entity = entry.entity
        rejectors = tuple(
            dict.fromkeys(
                (info.pod.spec.scheduler_name, plugin)
                for info, _ in entity.spokesmen
                for plugin in info.rejectors
            )
        )
        pod = entity.pod if isinstance(entity, QueuedPodInfo) else None
        if pod is not None and pod is entry.pod and rejectors == entry.rejectors:
            return
        self._unindex(key, entry)
        entry.rejectors, entry.pod = rejectors, pod
        for rejector in rejectors:
            self._by_rejector.setdefault(rejector, _TurnedAway()).put(key, entry)

    def _unindex(self, key: str, entry: _Entry) -> None:
        for rejector in entry.rejectors:
            turned_away = self._by_rejector[rejector]
            turned_away.remove(key)
            if not turned_away.entries:
                del self._by_rejector[rejector]
