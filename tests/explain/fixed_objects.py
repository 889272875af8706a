"""Fixes applied to API objects as an API server would, by its own way to patch."""

from collections.abc import Iterable
from copy import deepcopy

from moorage.apiserver.patching import json_patch
from moorage.explain.fixes.changes import document
from moorage.explain.report import Edit, Fix
from moorage.model.meta import ApiObject, Json


def plain(obj: ApiObject) -> Json:
    """An object as the API writes it."""
    return {**document(obj), "kind": type(obj).__name__}


def named(obj: Json) -> tuple[str, str]:
    """Kind and name, as edits have them."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "")
    return obj["kind"], f"{namespace}/{metadata['name']}" if namespace else metadata["name"]


def applied(fix: Fix, objects: Iterable[Json]) -> list[Json]:
    """All objects after a fix; what an edit is about must be there."""
    found = {named(obj): obj for obj in objects}
    for edit in fix.edits:
        _apply(edit, found)
    return list(found.values())


def _apply(edit: Edit, objects: dict[tuple[str, str], Json]) -> None:
    key = (edit.kind, edit.name)
    if edit.create is not None:
        assert key not in objects, f"{key} exists already"
        assert named(edit.create) == key
        objects[key] = edit.create
    elif edit.delete:
        del objects[key]
    else:
        assert edit.patch, "an edit does something"
        objects[key] = json_patch(deepcopy(objects[key]), list(edit.patch))
