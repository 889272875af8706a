"""Schemas of custom resources: unknown fields are dropped, defaults filled in, values checked.

A schema is structural, as `custom_resources` makes sure. Types, required fields, enums, bounds and
patterns are checked; formats, `allOf` and its kin, and CEL rules are not.
Upstream: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}, kube-openapi
pkg/validation/validate.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any

import msgspec
import re2

from moorage.apiserver.errors import Cause, Json
from moorage.apiserver.fields import under

_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INTEGER_OR_TEXT = "x-kubernetes-int-or-string"
_META = frozenset({"apiVersion", "kind", "metadata"})
_WRONG_TYPE = "FieldValueTypeInvalid"


@lru_cache(maxsize=64)
def schema_of(encoded: bytes) -> Json:
    """A schema that a resource has as JSON."""
    return msgspec.json.decode(encoded, type=dict[str, Any])


def prune(schema: Json, obj: Any, *, root: bool = True) -> list[str]:
    """Drop the fields that a schema does not have; their paths."""
    found: list[str] = []
    if isinstance(obj, list):
        for place, item in enumerate(obj):
            found += under(f"[{place}]", prune(_map(schema.get("items")), item, root=False))
    if not isinstance(obj, dict):
        return found
    known, others = _map(schema.get("properties")), schema.get("additionalProperties")
    kept = bool(schema.get(_PRESERVES))
    meta = _META if root or schema.get(_EMBEDDED) else frozenset[str]()
    for name in sorted(obj):
        if name in known or isinstance(others, dict):
            inner = known.get(name) or _map(others)
            if not (root and name == "metadata"):
                found += under(name, prune(inner, obj[name], root=False))
        elif not (kept or others or name in meta):
            del obj[name]
            found.append(name)
    return found


def fill(schema: Json, obj: Any) -> None:
    """Give an object the defaults of its schema."""
    if isinstance(obj, list):
        for item in obj:
            fill(_map(schema.get("items")), item)
    if not isinstance(obj, dict):
        return
    for name, inner in _map(schema.get("properties")).items():
        if name not in obj and inner.get("default") is not None:
            obj[name] = deepcopy(inner["default"])
        if name in obj:
            fill(inner, obj[name])
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        for name in obj.keys() - _map(schema.get("properties")).keys():
            fill(others, obj[name])


def check(schema: Json, value: Any, path: str = "") -> Iterator[Cause]:
    """What is wrong with a value by its schema."""
    wanted = "integer,string" if schema.get(_INTEGER_OR_TEXT) else schema.get("type", "")
    got = _type_of(value)
    if value is None:
        return
    if wanted and got not in wanted.split(",") and not (got == "integer" and wanted == "number"):
        text = f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"'
        yield Cause(path, text, _WRONG_TYPE)
        if got == "number":
            text = f"Checked value must be of type integer (default format) in {path}"
            yield Cause("<nil>", f'Invalid value: "": {text}', _WRONG_TYPE)
        return
    choices = schema.get("enum")
    if choices is not None and value not in choices:
        listed = ", ".join(json.dumps(choice) for choice in choices)
        text = f"Unsupported value: {json.dumps(value)}: supported values: {listed}"
        yield Cause(path, text, "FieldValueNotSupported")
    if isinstance(value, dict):
        yield from _members(schema, value, path)
    elif isinstance(value, list):
        yield from _items(schema, value, path)
    elif isinstance(value, str):
        yield from _text(schema, value, path)
    elif not isinstance(value, bool):
        yield from _number(schema, value, path)


def _type_of(value: Any) -> str:
    names = {bool: "boolean", int: "integer", str: "string", list: "array", dict: "object"}
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return names.get(type(value), "null")


def _members(schema: Json, value: Json, path: str) -> Iterator[Cause]:
    within = f"{path}." if path else ""
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause(f"{within}{name}", "Required value", "FieldValueRequired")
    known, others = _map(schema.get("properties")), _map(schema.get("additionalProperties"))
    for name, member in value.items():
        yield from check(known.get(name, others), member, f"{within}{name}")


def _items(schema: Json, value: list[Any], path: str) -> Iterator[Cause]:
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        text = f"Invalid value: {len(value)}: {path} in body should have at least {least} items"
        yield Cause(path, text)
    if most is not None and len(value) > most:
        text = f"Too many: {len(value)}: must have at most {most} items"
        yield Cause(path, text, "FieldValueTooMany")
    for place, item in enumerate(value):
        yield from check(_map(schema.get("items")), item, f"{path}[{place}]")


def _text(schema: Json, value: str, path: str) -> Iterator[Cause]:
    shown = json.dumps(value)
    least, most, pattern = (schema.get(key) for key in ("minLength", "maxLength", "pattern"))
    if most is not None and len(value) > most:
        yield Cause(path, f"Too long: may not be more than {most} bytes", "FieldValueTooLong")
    elif least is not None and len(value) < least:
        yield Cause(
            path, f"Invalid value: {shown}: {path} in body should be at least {least} chars long"
        )
    elif pattern and re2.search(pattern, value) is None:
        yield Cause(path, f"Invalid value: {shown}: {path} in body should match '{pattern}'")


def _number(schema: Json, value: float, path: str) -> Iterator[Cause]:
    for key, word, sign in (("minimum", "greater", 1), ("maximum", "less", -1)):
        bound = schema.get(key)
        if bound is None:
            continue
        exclusive = bool(schema.get(f"exclusive{key.capitalize()}"))
        if (value - bound) * sign < 0 or (exclusive and value == bound):
            rule = f"{word} than {'' if exclusive else 'or equal to '}{bound:g}"
            yield Cause(path, f"Invalid value: {value:g}: {path} in body should be {rule}")


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
