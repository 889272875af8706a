"""Lists: which objects, at which version, in which pages.

A page refers to the list it was cut from, which is kept for a while; all pages therefore show one
moment, as upstream's do. Stored objects are immutable, so a kept list costs its references, and the
states that nobody else has any more.
"""

import base64
import binascii
from collections import OrderedDict
from typing import Annotated, NamedTuple

import msgspec

from moorage.apiserver.errors import Cause, Json, bad_request, expired, invalid
from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import Clock
from moorage.apiserver.requests import Target, number
from moorage.apiserver.selection import Selection
from moorage.apiserver.storage import Storage

_KEPT_LISTS = 64
KEPT_SECONDS = 300.0
"""After so long upstream has compacted its history, too."""
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    """What a continue token holds."""

    id: Annotated[int, msgspec.Meta(ge=0)]
    start: Annotated[int, msgspec.Meta(ge=0)]


class _Kept(NamedTuple):
    items: list[Stored]
    version: int
    since: float


class Lists:
    """Answers lists, and remembers those that are being read page by page."""

    def __init__(self, store: Storage, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._last_id = 0

    def expire_pages(self) -> None:
        """Forget all lists that are being paged through; their clients get a 410."""
        self._kept.clear()

    def read(
        self, target: Target, query: dict[str, str], selection: Selection
    ) -> tuple[list[Stored], Json]:
        """The objects of a list request and the list's metadata."""
        self._forget_old()
        limit = max(0, number(query, "limit") or 0)
        token = query.get("continue")
        if token:
            if query.get("resourceVersion", "0") != "0":
                raise bad_request("specifying resource version is not allowed when using continue")
            return self._page(_unpack(token), limit)
        items, version = self._items(target, query)
        if not selection.everything:
            items = [stored for stored in items if selection.matches(stored)]
        if not limit or limit >= len(items):
            return items, {"resourceVersion": str(version)}
        self._last_id += 1
        self._kept[self._last_id] = _Kept(items, version, self._clock())
        while len(self._kept) > _KEPT_LISTS:
            self._kept.popitem(last=False)
        return self._page(_Token(self._last_id, 0), limit)

    def _forget_old(self) -> None:
        oldest = self._clock() - KEPT_SECONDS
        for one in [one for one, kept in self._kept.items() if kept.since < oldest]:
            del self._kept[one]

    def _items(self, target: Target, query: dict[str, str]) -> tuple[list[Stored], int]:
        collection = self._store.collection(target.resource.storage)
        version = number(query, "resourceVersion") or 0
        match = query.get("resourceVersionMatch", "")
        _check_match(target, match, query)
        self._store.check_reached(version)
        if match == "Exact" and version != self._store.version:
            items = collection.at_version(version)
            if target.namespace:
                items = [stored for stored in items if stored.namespace == target.namespace]
            return items, version
        if target.namespace:
            return collection.within(target.namespace), self._store.version
        return collection.all(), self._store.version

    def _page(self, token: _Token, limit: int) -> tuple[list[Stored], Json]:
        kept = self._kept.get(token.id)
        if kept is None:
            raise expired(_TOO_OLD)
        end = token.start + limit if limit else len(kept.items)
        metadata: Json = {"resourceVersion": str(kept.version)}
        if end < len(kept.items):
            metadata["continue"] = _pack(_Token(token.id, end))
            metadata["remainingItemCount"] = len(kept.items) - end
        else:
            # Not forgotten yet: a client whose last page got lost asks for it again.
            self._kept.move_to_end(token.id, last=False)
        return kept.items[token.start : end], metadata


def _check_match(target: Target, match: str, query: dict[str, str]) -> None:
    version = query.get("resourceVersion", "")
    text = ""
    if match and match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
    elif match and not version:
        text = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif match == "Exact" and version == "0":
        text = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    if text:
        cause = Cause("resourceVersionMatch", text)
        raise invalid("ListOptions", "meta.k8s.io", "", [cause])


def _pack(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _unpack(text: str) -> _Token:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(data, type=_Token)
    except (binascii.Error, msgspec.DecodeError, ValueError):
        raise bad_request(f"continue key is not valid: {text!r}") from None
