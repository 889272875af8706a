"""The events of late by what they are about, for whoever looks at an object.

Owns counting and forgetting: of each object the newest few are kept, and of so many objects those
that had an event last. Nothing here is written to the API server (`event_recorder`), nor read from
it: a scheduler has no right to.
"""

from collections.abc import Sequence

from moorage.explain.listing import EventLine
from moorage.kube.event_series import EventKey

MOST_OBJECTS = 2000
MOST_EVENTS = 10

_About = tuple[str, str, str]
_Told = tuple[str, str, str, str]
"""Type, reason, note and controller: what makes events equal to people."""


class RecentEvents:
    """Notes every event, which must stay cheap: there is one for each pod that is placed."""

    def __init__(self) -> None:
        self._events: dict[_About, dict[_Told, EventLine]] = {}

    def note(self, key: EventKey, text: str, now: float) -> None:
        """There was an event."""
        regarding = key.regarding
        about = regarding.kind, regarding.namespace, regarding.name
        events = self._events.pop(about, None)
        if events is None:
            events = {}
            if len(self._events) >= MOST_OBJECTS:
                del self._events[next(iter(self._events))]
        self._events[about] = events
        told = key.type, key.reason, text, key.controller
        before = events.pop(told, None)
        first, count = (now, 0) if before is None else (before.first, before.count)
        events[told] = EventLine(*told, count=count + 1, first=first, last=now)
        if len(events) > MOST_EVENTS:
            del events[next(iter(events))]

    def about(self, kind: str, namespace: str, name: str) -> Sequence[EventLine]:
        """Events about an object, the newest first."""
        return tuple(reversed(self._events.get((kind, namespace, name), {}).values()))
