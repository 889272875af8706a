"""The patch a request carries, as a function from the old object to the new one.

JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386) are here, strategic merges in
`strategic_merge`. The work of a patch is bounded by the size of its body and of the object: copies
are counted and limited, and so is the number of places by which list elements move.
Upstream: apiserver pkg/endpoints/handlers/patch.go, evanphx/json-patch.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from moorage.apiserver.bodies import check_shape, media_type, parse_json, parse_yaml
from moorage.apiserver.errors import (
    MAX_COPIED_BYTES,
    MAX_PATCH_OPERATIONS,
    ApiStatusError,
    Json,
    bad_request,
    check_depth,
    entity_too_large,
    too_deep,
    unsupported_patch_type,
)
from moorage.apiserver.strategic_merge import strategic_merge
from moorage.model.meta import merge_patch

# Inserting at the front of a long list moves all of it: so many places take about a second.
_MAX_MOVES = 2**28


def json_patch(document: Json, operations: Any) -> Json:
    """The document after all operations; raises a 422 where one does not apply."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    if len(operations) > MAX_PATCH_OPERATIONS:
        raise entity_too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_PATCH_OPERATIONS}, "
            f"got {len(operations)}"
        )
    patching = _Patching(document)
    try:
        for operation in operations:
            if not isinstance(operation, dict):
                raise bad_request("an operation of a JSON patch is an object")
            patching.apply(operation)
    except RecursionError:
        raise too_deep() from None
    check_depth(patching.document)
    if not isinstance(patching.document, dict):
        raise bad_request("the patch leaves no object")
    return patching.document


def _fails(text: str = "") -> ApiStatusError:
    # Upstream does not tell what is wrong with it.
    message = "the server rejected our request due to an error in our request"
    return ApiStatusError(422, "Invalid", f"{message}: {text}" if text else message)


class _Patching:
    """A document while operations change it in place, and what they have cost so far."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied = 0
        self._moves = 0

    def apply(self, operation: Json) -> None:
        """Do one operation; its value becomes part of the document."""
        kind, path = operation.get("op"), _steps(operation.get("path"))
        match kind:
            case "add":
                self._add(path, operation.get("value"))
            case "remove":
                self._remove(path)
            case "replace":
                self._replace(path, operation.get("value"))
            case "move":
                self._add(path, self._remove(_steps(operation.get("from"))))
            case "copy":
                self._add(path, self._copy(_steps(operation.get("from"))))
            case "test":
                if self._at(path) != operation.get("value"):
                    raise _fails()
            case _:
                raise _fails()

    def _at(self, path: list[str]) -> Any:
        value = self.document
        for step in path:
            value = value[_member(value, step)]
        return value

    def _add(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent, last = self._at(path[:-1]), path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list) and last == "-":
            parent.append(value)
        elif isinstance(parent, list) and (index := _index(last)) <= len(parent):
            self._count_moves(len(parent) - index)
            parent.insert(index, value)
        else:
            raise _fails()

    def _replace(self, path: list[str], value: Any) -> None:
        self._at(path)  # it must be there
        if not path:
            self.document = value
            return
        parent = self._at(path[:-1])
        parent[_member(parent, path[-1])] = value

    def _remove(self, path: list[str]) -> Any:
        if not path:
            raise _fails()
        parent = self._at(path[:-1])
        member = _member(parent, path[-1])
        if isinstance(parent, list):
            self._count_moves(len(parent) - member)
        return parent.pop(member)

    def _copy(self, path: list[str]) -> Any:
        data = msgspec.json.encode(self._at(path))
        self._copied += len(data)
        if self._copied > MAX_COPIED_BYTES:
            raise _fails(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        return msgspec.json.decode(data)

    def _count_moves(self, places: int) -> None:
        self._moves += places
        if self._moves > _MAX_MOVES:
            raise entity_too_large("the patch inserts or removes too often in a long list")


def _steps(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise bad_request(f"{pointer!r} is not a JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]


def _index(step: str) -> int:
    """A position in a list; one beyond any list if the step is not a number."""
    return int(step) if step.isascii() and step.isdigit() and len(step) < 10 else 2**62


def _member(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        if step in container:
            return step
    elif isinstance(container, list) and (index := _index(step)) < len(container):
        return index
    raise _fails()


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_NOT_A_MAP = "json: cannot unmarshal array into Go value of type map[string]interface {}"


def patch_function(body: bytes, content_type: str) -> Callable[[Json], Json]:
    """The change a patch request asks for."""
    change = _change(body, content_type)

    def checked(obj: Json) -> Json:
        changed = change(obj)
        check_shape(changed)
        return changed

    return checked


def _change(body: bytes, content_type: str) -> Callable[[Json], Json]:
    media = media_type(content_type)
    if media == JSON_PATCH:
        operations = parse_json(body)
        return lambda obj: json_patch(obj, operations)
    if media == MERGE_PATCH:
        merge = parse_json(body)
        if not isinstance(merge, dict):
            raise bad_request(f"error decoding patch: {_NOT_A_MAP}")
        return lambda obj: merge_patch(obj, merge)
    if media == STRATEGIC_MERGE_PATCH:
        patch = parse_json(body)
        return lambda obj: strategic_merge(obj, patch)
    raise unsupported_patch_type()


def applied_object(body: bytes) -> Json:
    """The configuration of a server-side apply; JSON is YAML too."""
    value = parse_json(body) if body[:1] == b"{" else parse_yaml(body)
    if not isinstance(value, dict):
        raise bad_request("an applied configuration is an object")
    check_shape(value)
    (value.get("metadata") or {}).pop("managedFields", None)
    return value
