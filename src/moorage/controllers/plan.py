"""What a controller wants written, as values: the only thing that comes out of one.

Owns how a change is guarded: a status by the uid, everything else by the resource version, so that
a decision about an older state is refused. Sends nothing.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.objects import (
    Json,
    is_going,
    labels,
    meta,
    reference_to,
    selector_of,
    status,
)


class Note(NamedTuple):
    """Write an event about an object."""

    regarding: Json
    reason: str
    message: str
    type: str = "Normal"


class CreateObject(NamedTuple):
    """Make an object; then say so, with its name for `{name}`."""

    kind: str
    namespace: str
    body: Json
    note: Note | None = None


class PatchObject(NamedTuple):
    """Change parts of an object, by a JSON merge patch."""

    key: Key
    changes: Json
    subresource: str = ""
    note: Note | None = None


class DeleteObject(NamedTuple):
    """Delete this very object; a grace of 0 means without waiting for a kubelet."""

    key: Key
    uid: str
    grace_seconds: int | None = None
    note: Note | None = None


Write = CreateObject | PatchObject | DeleteObject | Note


class Plan:
    """The writes for one object, in order, and when to look at it again."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.again_in: float | None = None
        """Seconds until time alone changes something; None if it does not."""

    def create(self, body: Json, note: Note | None = None) -> None:
        """Make an object."""
        self.writes.append(CreateObject(body["kind"], meta(body).get("namespace", ""), body, note))

    def change(
        self, obj: Json, note: Note | None = None, *, subresource: str = "", **changes: Any
    ) -> None:
        """Change an object, unless it has changed meanwhile."""
        guard = {"resourceVersion": meta(obj)["resourceVersion"]}
        metadata = {**changes.pop("metadata", {}), **guard}
        self.writes.append(
            PatchObject(key_of(obj), {**changes, "metadata": metadata}, subresource, note)
        )

    def set_status(
        self,
        obj: Json,
        new: Json,
        required: Iterable[str] = (),
        annotations: Json | None = None,
        note: Note | None = None,
    ) -> None:
        """Give an object this status (and annotations), if that is news.

        As Go's types do, what is zero or empty is left out, unless it is `required`.
        """
        old = status(obj)
        kept = {name: value for name, value in new.items() if value or name in required}
        news = {
            name: _in_place_of(old.get(name), value)
            for name, value in kept.items()
            if old.get(name) != value
        }
        news |= {name: None for name in old if name not in kept}
        if news or annotations:
            metadata: Json = {"uid": meta(obj)["uid"]}
            if annotations:
                metadata["annotations"] = annotations
            self.writes.append(
                PatchObject(key_of(obj), {"metadata": metadata, "status": news}, "status", note)
            )

    def delete(self, obj: Json, note: Note | None = None, grace_seconds: int | None = None) -> None:
        """Delete an object, unless that has begun."""
        if not is_going(obj) or grace_seconds == 0:
            self.writes.append(DeleteObject(key_of(obj), meta(obj)["uid"], grace_seconds, note))

    def look_again(self, seconds: Iterable[float | None]) -> None:
        """Look again when the first of these times has passed; None and 0 are none."""
        times = [one for one in (*seconds, self.again_in) if one]
        self.again_in = min(times, default=None)

    def claim(self, cluster: ClusterObjects, owner: Json, kind: str) -> list[Json]:
        """The objects that are `owner`'s: adopts those that it selects and nobody controls.

        Objects that it controls but does not select any more are released.
        """
        selector = selector_of(owner)
        mine = []
        for obj in cluster.controlled(kind, owner):
            if selector is not None and selector.matches(labels(obj)):
                mine.append(obj)
            elif not is_going(owner) and not is_going(obj):
                uid = meta(owner)["uid"]
                rest = [ref for ref in meta(obj)["ownerReferences"] if ref["uid"] != uid]
                self.change(obj, metadata={"ownerReferences": rest or None})
        if selector is None or is_going(owner):
            return mine
        for obj in cluster.free(kind, meta(owner).get("namespace", "")):
            if selector.matches(labels(obj)) and not is_going(obj):
                others = meta(obj).get("ownerReferences") or []
                references = [*others, reference_to(owner)]
                self.change(obj, metadata={"ownerReferences": references})
                mine.append(obj)
        return mine


def _in_place_of(old: Any, new: Any) -> Any:
    """What makes a merge patch replace a mapping instead of adding to it."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {**dict.fromkeys(old.keys() - new.keys()), **new}
    return new
