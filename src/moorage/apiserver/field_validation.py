"""What a request asks to be done about fields that are unknown or given twice.

`fieldValidation` may be `Strict` (refuse), `Warn` (say so in a header; what is meant where nothing
is said) or `Ignore`. In any case they are not stored, and a value of a wrong type is refused. Which
fields there are is known in `fields`.
Upstream: apiserver pkg/endpoints/handlers/{create,update,patch}.go.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from moorage.apiserver.bodies import (
    JSON,
    check_shape,
    media_type,
    parse_json,
    read_document,
)
from moorage.apiserver.errors import (
    ApiStatusError,
    Cause,
    Json,
    UnreadableError,
    invalid,
    unreadable,
    unrecognized,
    unsupported_media_type,
)
from moorage.apiserver.field_ownership import shown_path
from moorage.apiserver.fields import check_fields, repeated_fields
from moorage.apiserver.messages import message_name, messages
from moorage.apiserver.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    applied_object,
    patch_function,
)
from moorage.apiserver.requests import Target
from moorage.apiserver.resources import subresource_kind
from moorage.apiserver.schemas import fill, prune, schema_of
from moorage.apiserver.storage import encode

_STRICT, _WARN, _IGNORE = "Strict", "Warn", "Ignore"
_YAML = "yaml: unmarshal errors: "
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


class FieldValidation:
    """Reads the body of one request; what there is to warn about gathers in `warnings`."""

    def __init__(self, method: str, target: Target, directive: str) -> None:
        if directive not in ("", _IGNORE, _STRICT, _WARN):
            choices = '"", "Ignore", "Strict", "Warn"'
            text = f'Unsupported value: "{directive}": supported values: {choices}'
            cause = Cause("fieldValidation", text, "FieldValueNotSupported")
            raise invalid(_OPTIONS[method], "meta.k8s.io", "", [cause])
        self._group, self._version, self._kind = subresource_kind(
            target.resource, target.subresource
        )
        name = message_name(self._group, self._version, self._kind)
        self._message = messages().get(name)
        self._schema = b"" if target.subresource == "scale" else target.resource.schema
        self._directive = directive or _WARN
        self.warnings: list[str] = []

    def object(self, body: bytes, content_type: str) -> Json:
        """The object in the body of a creation or an update."""
        obj, complaints = read_document(body, content_type, self._kind)
        lines = [line for text in complaints for line in text.removeprefix(_YAML).split("; ")]
        found = [_YAML.rstrip() + "".join(f"\n  {line}" for line in lines)] if lines else []
        if media_type(content_type) == JSON and body:
            found = lines = self._repeated(body)
        try:
            if self._schema:
                self._check_kind(obj, body)
            unknown = self._unknown(obj)
        except UnreadableError as error:
            raise unreadable(self._kind, self._version, str(error)) from None
        if not self._schema:
            check_shape(obj)
        if (found or unknown) and self._directive == _STRICT:
            raise unreadable(self._kind, self._version, _strict([*found, *unknown]))
        self._warn([*lines, *unknown])
        return obj

    def patch(self, body: bytes, content_type: str) -> Callable[[Json], Json]:
        """The change that a patch asks for; what comes of it has been checked."""
        media = media_type(content_type)
        if media == STRATEGIC_MERGE_PATCH and self._message is None:
            raise unsupported_media_type(", ".join((JSON_PATCH, MERGE_PATCH, APPLY_PATCH)))
        change = patch_function(body, content_type)
        repeated = self._repeated(body) if media.endswith("+json") else []

        def checked(obj: Json) -> Json:
            changed = change(obj)
            shown = _shown(media, body, changed) if self._directive == _STRICT else ""
            try:
                found = [*repeated, *self._unknown(changed)]
            except UnreadableError as error:
                raise _invalid_patch(_shown(media, body, changed), str(error)) from None
            if not self._schema:
                check_shape(changed)
            if found and self._directive == _STRICT:
                raise _invalid_patch(shown, _strict(found))
            self._warn(found)
            return changed

        return checked

    def applied(self, body: bytes) -> Json:
        """The configuration in a server-side apply."""
        config = applied_object(body)
        if not isinstance(config.get("metadata", {}), dict):
            check_shape(config)
        try:
            unknown = self._unknown(deepcopy(config))
        except UnreadableError as error:
            raise self._untyped(config, [str(error)]) from None
        if unknown:
            paths = [shown_path(config, text.partition('"')[2].rstrip('"')) for text in unknown]
            # Upstream looks no deeper than to the first level where something is unknown.
            least = min(path.count(".") for path in paths)
            why = [f"{path}: field not declared in schema" for path in paths]
            raise self._untyped(config, [one for one in why if one.count(".") == least])
        check_shape(config)
        return config

    def _untyped(self, config: Json, why: list[str]) -> ApiStatusError:
        metadata = config.get("metadata") or {}
        place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        kind = f"{self._group}/{self._version}, Kind={self._kind}"
        text = why[0] if len(why) == 1 else "".join(["errors:", *(f"\n  {one}" for one in why)])
        message = f"failed to create typed patch object ({place}; {kind}): {text}"
        return ApiStatusError(500, "", message)

    def _repeated(self, body: bytes) -> list[str]:
        return [] if self._directive == _IGNORE else repeated_fields(body)

    def _unknown(self, obj: Json) -> list[str]:
        if obj.get("kind", self._kind) != self._kind:
            return []  # a wrong kind is refused later
        if self._message is not None:
            return check_fields(self._message, obj)
        return self._unknown_custom(obj) if self._schema else []

    def _check_kind(self, obj: Json, body: bytes) -> None:
        """Only of what has a type in Go may the kind be left out."""
        for field, word in (("kind", "Kind"), ("apiVersion", "apiVersion")):
            if not obj.get(field):
                why = f"Object '{word}' is missing in '{body.decode('utf-8', 'replace')}'"
                raise unrecognized(self._kind, why, body)

    def _unknown_custom(self, obj: Json) -> list[str]:
        """The same by the schema of a custom resource, which has defaults, too."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict | None):
            check_fields(messages()["meta.v1.PartialObjectMetadata"], {"metadata": metadata})
        found = check_fields(messages()["meta.v1.ObjectMeta"], metadata or {})
        found = [text.replace('"', '"metadata.', 1) for text in found]
        schema = schema_of(self._schema)
        found += [f'unknown field "{path}"' for path in prune(schema, obj)]
        fill(schema, obj)
        return found

    def _warn(self, found: list[str]) -> None:
        if self._directive == _WARN:
            self.warnings += found


def _strict(found: list[str]) -> str:
    return f"strict decoding error: {', '.join(found)}"


def _invalid_patch(shown: str, why: str) -> ApiStatusError:
    # Upstream names neither the kind nor the object here.
    return invalid("", "", "", [Cause("patch", f"Invalid value: {shown}: {why}")])


def _shown(media: str, body: bytes, changed: Json) -> str:
    """What upstream quotes: a strategic merge patch itself, of others what comes of them."""
    value = (
        _go_text(parse_json(body)) if media == STRATEGIC_MERGE_PATCH else encode(changed).decode()
    )
    return encode(value).decode()


def _go_text(value: Any) -> str:
    """A JSON value as Go prints one."""
    if isinstance(value, dict):
        members = (f"{name}:{_go_text(value[name])}" for name in sorted(value))
        return f"map[{' '.join(members)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if value is None:
        return "<nil>"
    return str(value).lower() if isinstance(value, bool) else str(value)
