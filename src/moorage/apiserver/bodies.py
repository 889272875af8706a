"""Request bodies to plain JSON, whatever they were written in."""

from typing import Any

import msgspec

from moorage.apiserver.errors import (
    MAX_BODY_BYTES,
    Json,
    NotJsonError,
    bad_request,
    check_depth,
    too_deep,
    too_many_bytes,
    unrecognized,
    unsupported_media_type,
)
from moorage.apiserver.protobuf import MEDIA_TYPE as PROTOBUF
from moorage.apiserver.protobuf import decode_body
from moorage.config import documents
from moorage.errors import ConfigError
from moorage.model.decode import without_nulls
from moorage.model.meta import DEEPEST

JSON = "application/json"
YAML = "application/yaml"
_ACCEPTED = f"{JSON}, {YAML}, {PROTOBUF}"
_OBJECTS = ("metadata", "spec", "status", "target", "deleteOptions")
_METADATA_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def media_type(content_type: str) -> str:
    """The media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read_object(body: bytes, content_type: str) -> Json:
    """The object in a body, empty if the body is; null members count as absent, as in Go."""
    if not body:
        return {}
    obj, _ = read_document(body, content_type, "DeleteOptions")
    check_shape(obj)
    return obj


def read_document(body: bytes, content_type: str, kind: str) -> tuple[Json, list[str]]:
    """The object of a kind in a body, and complaints about keys that its YAML repeats."""
    media = media_type(content_type)
    if media not in (JSON, YAML, PROTOBUF):
        raise unsupported_media_type(_ACCEPTED)
    value: Any
    complaints: list[str] = []
    if media == PROTOBUF:
        value = decode_body(body)
        check_depth(value)
    elif media == YAML:
        try:
            value, complaints = _parse_yaml(body)
        except (ConfigError, ValueError) as error:
            raise unrecognized(kind, str(error), body) from None
    else:
        value = _parse_object(body, kind)
    if b"null" in body or media == YAML:
        value = without_nulls(value)
    if not isinstance(value, dict):
        raise unrecognized(kind, _cannot_unmarshal(value, _GO_STRUCT), body)
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field, ""), str):
            why = f"Go struct field .{field} of type string"
            raise unrecognized(kind, _cannot_unmarshal(value[field], why), body)
    return value, complaints


_NO_KIND = "couldn't get version/kind; json parse error: "
_GO_STRUCT = (
    'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_WORDS = {str: "string", bool: "bool", list: "array", dict: "object"}


def _parse_object(body: bytes, kind: str) -> Any:
    try:
        return parse_json(body)
    except NotJsonError as error:
        why = "unexpected end of JSON input" if error.ended else error.why
        raise unrecognized(kind, f"{_NO_KIND}{why}", body) from None


def _cannot_unmarshal(value: Any, into: str) -> str:
    word = _WORDS.get(type(value), "number")
    return f"{_NO_KIND}json: cannot unmarshal {word} into {into}"


def check_shape(obj: Json) -> None:
    """Refuse wrong types in the fields that are read whatever the object's kind."""
    for field in _OBJECTS:
        _check_type(obj, field, dict, "an object")
    metadata = obj.get("metadata") or {}
    for field in _METADATA_TEXTS:
        _check_type(metadata, field, str, "a string", "metadata.")
    for field in ("labels", "annotations"):
        _check_type(metadata, field, dict, "an object", "metadata.")


def _check_type(obj: Json, field: str, wanted: type, noun: str, within: str = "") -> None:
    value = obj.get(field)
    if value is not None and not isinstance(value, wanted):
        raise bad_request(f"{within}{field} must be {noun}")


def parse_json(body: bytes) -> Any:
    """JSON, or a 400."""
    try:
        value = _decode(body)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise NotJsonError(str(error)) from None
    if body.count(b"{") + body.count(b"[") > DEEPEST:
        check_depth(value)
    return value


def parse_yaml(body: bytes) -> Any:
    """YAML, or a 400; no part of the value is shared, whatever aliases the body has."""
    try:
        return _parse_yaml(body)[0]
    except (ConfigError, ValueError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None


def _parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value, and complaints about repeated keys."""
    value, complaints = documents.parse_yaml(body.decode("utf-8"))
    written_out = _encode(value)
    if len(written_out) > MAX_BODY_BYTES:
        raise too_many_bytes()
    return _decode(written_out), complaints
