"""Which patch a request carries, as a function from the old object to the new one."""

from collections.abc import Callable

from moorage.apiserver.bodies import check_shape, media_type, parse_json, parse_yaml
from moorage.apiserver.json_patch import json_patch, merge_patch
from moorage.apiserver.statuses import Json, bad_request, unsupported_media_type
from moorage.apiserver.strategic_merge import strategic_merge

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_ACCEPTED = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


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
        return lambda obj: _object(merge_patch(obj, merge))
    if media == STRATEGIC_MERGE_PATCH:
        patch = parse_json(body)
        return lambda obj: strategic_merge(obj, patch)
    if media == APPLY_PATCH:
        applied = applied_object(body)
        return lambda obj: strategic_merge(obj, applied)
    raise unsupported_media_type(", ".join(_ACCEPTED))


def applied_object(body: bytes) -> Json:
    """The configuration of a server-side apply; JSON is YAML too."""
    value = parse_json(body) if body[:1] == b"{" else parse_yaml(body)
    if not isinstance(value, dict):
        raise bad_request("an applied configuration is an object")
    check_shape(value)
    (value.get("metadata") or {}).pop("managedFields", None)
    return value


def _object(value: object) -> Json:
    if not isinstance(value, dict):
        raise bad_request("the patch leaves no object")
    return value
