"""Events as values: their text, which of them are equal, and when a series is written.

An event's text is cut to what the API takes and formatted as Go does it: kube-scheduler passes its
failure message as a *format string* without arguments, so a percent sign in it comes out as Go's
complaint about the missing argument. Sends nothing: that is `event_recorder`'s part.
"""

import re

import msgspec

from moorage.kube.requests import Request, create, patch
from moorage.kube.resources import RESOURCES
from moorage.kube.timing import micro_time
from moorage.model.meta import ApiObject

NOTE_LIMIT = 1024
_CUT = " ..."
_DIRECTIVE = re.compile(r"%[+\-# 0]*[0-9]*(?:\.[0-9]*)?(?P<verb>.)?", re.DOTALL)
FINISH_AFTER = 360.0
"""A series ends, and a single event is forgotten, after so many quiet seconds."""
REFRESH_EVERY = 1800.0
"""A series that goes on is written so often, lest the server forgets its event."""
MOST_REMEMBERED = 100_000
NAME_LIMIT = 253
_NEVER_REPEATED = frozenset({"Scheduled"})
"""Reasons of events that an object has only once, so that remembering them is useless."""


def event_note(message: str) -> str:
    """The message as the note of an event."""
    return _as_format_string(_truncated(message))


def _truncated(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= NOTE_LIMIT:
        return message
    return encoded[: NOTE_LIMIT - len(_CUT)].decode(errors="replace") + _CUT


def _as_format_string(text: str) -> str:
    if "%" not in text:
        return text
    return _DIRECTIVE.sub(_complaint, text)


def _complaint(directive: re.Match[str]) -> str:
    verb = directive["verb"]
    if verb is None:
        return "%!(NOVERB)"
    return "%" if verb == "%" else f"%!{verb}(MISSING)"


class ObjectReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """Which object an event is about; the version is part of it, as upstream."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


def reference(obj: ApiObject) -> ObjectReference:
    """The reference to an object: a known type tells the kind, a custom object tells its own."""
    known = RESOURCES.get(type(obj).__name__)
    kind, api_version = (known.kind, known.api_version) if known else (obj.kind, obj.api_version)
    meta = obj.metadata
    return ObjectReference(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version=api_version,
        resource_version=meta.resource_version,
    )


class EventKey(msgspec.Struct, frozen=True, gc=False):
    """What makes two events equal; the note does not count."""

    type: str
    action: str
    reason: str
    controller: str
    instance: str
    regarding: ObjectReference
    related: ObjectReference | None
    apart: str = ""
    """Makes events differ that upstream's rule would count as one."""


class _Name(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str


class _Series(msgspec.Struct, frozen=True, rename="camel", gc=False):
    count: int
    last_observed_time: str


class EventBody(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """An event as events.k8s.io/v1 wants it; encoded without a detour over dictionaries."""

    metadata: _Name
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: ObjectReference
    note: str
    type: str
    related: ObjectReference | None = None
    series: _Series | None = None
    api_version: str = ""
    kind: str = ""


class _SeriesPatch(msgspec.Struct, frozen=True, gc=False):
    series: _Series


class Event(msgspec.Struct, gc=False):
    """An event and, once it has been repeated, its series."""

    key: EventKey
    namespace: str
    name: str
    note: str
    time: float
    count: int = 1
    last_time: float = 0.0
    written_count: int = 0

    def body(self) -> EventBody:
        """The whole event."""
        key = self.key
        return EventBody(
            _Name(self.name, self.namespace),
            micro_time(self.time),
            key.controller,
            key.instance,
            key.action,
            key.reason,
            key.regarding,
            self.note,
            key.type,
            key.related,
            self._series() if self.is_series else None,
            "events.k8s.io/v1",
            "Event",
        )

    def creation(self) -> Request:
        """Write it as a new event."""
        return create(RESOURCES["Event"], self.namespace, self.body())

    def count_patch(self) -> Request:
        """Write how often it has been repeated."""
        counted = _SeriesPatch(self._series())
        return patch(RESOURCES["Event"], self.namespace, self.name, counted)

    @property
    def is_series(self) -> bool:
        """Has it happened more than once?"""
        return self.count > 1

    def _series(self) -> _Series:
        return _Series(self.count, micro_time(self.last_time))


def event_name(regarding: str, nanoseconds: int) -> str:
    """`<object>.<time in hexadecimal>`, cut so that it stays a valid name."""
    suffix = f".{nanoseconds:x}"
    return regarding[: NAME_LIMIT - len(suffix)].rstrip(".-") + suffix


class SeriesMemory:
    """Recent events by key."""

    def __init__(self) -> None:
        self._events: dict[EventKey, Event] = {}
        self._last_name = 0

    def __len__(self) -> int:
        return len(self._events)

    def record(self, key: EventKey, note: str, now: float) -> Event | None:
        """Count an event; the one to write, or None if counting was enough."""
        known = self._events.get(key)
        if known is None:
            if len(self._events) >= MOST_REMEMBERED:
                self._events.pop(next(iter(self._events)))
            # Two events of one moment must not get one name.
            self._last_name = max(int(now * 1e9), self._last_name + 1)
            name = event_name(key.regarding.name, self._last_name)
            namespace = key.regarding.namespace or "default"
            event = Event(key, namespace, name, note, now)
            if key.reason in _NEVER_REPEATED:
                return event
            self._events[key] = event
            return msgspec.structs.replace(event)
        known.count += 1
        known.last_time = now
        if known.count > 2:
            return None
        known.written_count = known.count
        return msgspec.structs.replace(known)

    def finished(self, now: float) -> list[Event]:
        """Forget what has been quiet for long; the series among it, for their final count."""
        quiet = [
            event
            for event in self._events.values()
            if (event.last_time if event.is_series else event.time) < now - FINISH_AFTER
        ]
        for event in quiet:
            del self._events[event.key]
        return [event for event in quiet if event.is_series]

    def series(self) -> list[Event]:
        """All series, to refresh them; they count as written with that."""
        found = [event for event in self._events.values() if event.is_series]
        for event in found:
            event.written_count = event.count
        return [msgspec.structs.replace(event) for event in found]

    def unwritten(self) -> list[Event]:
        """The series whose count has grown since it was last written."""
        return [
            event for event in self._events.values() if event.count > max(2, event.written_count)
        ]
