"""Stored objects as HTTP responses: whole, as table rows, or metadata only.

Whole objects in their stored form are handed out without being decoded; that is the fast path
for lists and watches. Large lists are sent in pieces.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from moorage.apiserver.columns import INVALID, TableColumn, columns_of
from moorage.apiserver.errors import ApiStatusError, Json
from moorage.apiserver.history import Stored
from moorage.apiserver.metadata import Clock
from moorage.apiserver.requests import JSON, Form
from moorage.apiserver.resources import ApiResource, from_stored, stored_as_is
from moorage.apiserver.storage import encode

_META = "meta.k8s.io/v1"


class Renderer:
    """Writes objects of one resource in one form."""

    def __init__(self, resource: ApiResource, form: Form, include: str, clock: Clock) -> None:
        self._resource = resource
        self._form = form
        self._include = include
        self._clock = clock
        self._as_is = form is Form.OBJECT and stored_as_is(resource)

    def one(self, stored: Stored) -> bytes:
        """One object."""
        if self._as_is:
            return stored.data
        obj = from_stored(self._resource, stored.object())
        if self._form is Form.TABLE:
            version = obj["metadata"].get("resourceVersion")  # a dry run gives it none
            metadata = {} if version is None else {"resourceVersion": version}
            return encode(self._table(metadata, [self._row(obj)]))
        if self._form is Form.METADATA:
            return encode(partial(obj))
        return encode(obj)

    def many(self, items: Iterable[Stored], metadata: Json) -> Iterator[bytes]:
        """A list, piece by piece."""
        if self._form is Form.TABLE:
            objects = (from_stored(self._resource, stored.object()) for stored in items)
            yield encode(self._table(metadata, [self._row(obj) for obj in objects]))
            return
        if self._form is Form.METADATA:
            kind, version = "PartialObjectMetadataList", _META
        else:
            kind, version = f"{self._resource.kind}List", self._resource.api_version
        head = encode({"kind": kind, "apiVersion": version, "metadata": metadata})
        yield head[:-1] + b',"items":['
        separator = b""
        for stored in items:
            yield separator
            yield self.one(stored)
            separator = b","
        yield b"]}\n"

    def bookmark(self, version: int, *, initial_events_end: bool = False) -> bytes:
        """The object of a bookmark event."""
        metadata: Json = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, api_version = self._resource.kind, self._resource.api_version
        if self._form is Form.METADATA:
            kind, api_version = "PartialObjectMetadata", _META
        obj: Json = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
        if self._form is Form.TABLE:
            # The only way a table can carry a bookmark's mark: a row without cells.
            table = {"resourceVersion": str(version)}
            return encode(self._table(table, [{"cells": [], "object": partial(obj)}]))
        return encode(obj)

    def _table(self, metadata: Json, rows: list[Json]) -> Json:
        definitions = [
            {
                "name": column.name,
                "type": column.type,
                "format": "name" if column.name == "Name" else column.format,
                "description": column.description,
                "priority": column.priority,
            }
            for column in columns_of(self._resource)
        ]
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": definitions,
            "rows": rows,
        }

    def _row(self, obj: Json) -> Json:
        row: Json = {"cells": [self._cell(column, obj) for column in columns_of(self._resource)]}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            row["object"] = partial(obj)
        return row

    def _cell(self, column: TableColumn, obj: Json) -> Any:
        try:
            return column.cell(obj, self._clock())
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            # Not every field of every kind is checked; one odd object must not hide the others.
            return INVALID


def partial(obj: Json) -> Json:
    """`PartialObjectMetadata` of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


_HEADERS = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}
_PIECE = 256 * 1024


def answer_json(value: Json) -> web.Response:
    """An object that is not encoded yet."""
    return web.Response(body=encode(value), headers=_HEADERS)


def answer_text(text: str) -> web.Response:
    """Plain text, as the health endpoints answer."""
    return web.Response(text=text)


def answer_error(error: ApiStatusError) -> web.Response:
    """A refusal."""
    headers = dict(_HEADERS)
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    return web.Response(body=encode(error.status()), status=error.code, headers=headers)


async def answer_parts(
    request: web.BaseRequest,
    parts: Iterable[bytes],
    code: int = 200,
    warnings: Iterable[str] = (),
) -> web.StreamResponse:
    """What is encoded; nothing larger than a piece is ever copied, and others run in between."""
    pieces = list(parts)
    size = sum(map(len, pieces))
    headers = CIMultiDict(_HEADERS)
    for warning in warnings:
        headers.add("Warning", f"299 - {encode(warning).decode()}")
    if size <= _PIECE:
        return web.Response(body=b"".join(pieces), status=code, headers=headers)
    response = web.StreamResponse(status=code, headers=headers)
    response.content_length = size
    await response.prepare(request)
    batch: list[bytes] = []
    pending = 0
    for piece in pieces:
        batch.append(piece)
        pending += len(piece)
        if pending >= _PIECE:
            await response.write(b"".join(batch))
            batch.clear()
            pending = 0
    if batch:
        await response.write(b"".join(batch))
    await response.write_eof()
    return response
