"""What a request asks to be done about fields that are unknown or given twice.

`fieldValidation` may be `Strict` (refuse), `Warn` (say so in a header; what is meant where nothing
is said) or `Ignore`. In any case they are not stored, and a value of a wrong type is refused. Which
fields there are is known in `fields`.
Upstream: apiserver pkg/endpoints/handlers/{create,update,patch}.go.
"""

from collections.abc import Callable
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
)
from moorage.apiserver.fields import check_fields, repeated_fields
from moorage.apiserver.messages import message_name, messages
from moorage.apiserver.patching import STRATEGIC_MERGE_PATCH, patch_function
from moorage.apiserver.requests import Target
from moorage.apiserver.resources import subresource_kind
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
            unknown = self._unknown(obj)
        except UnreadableError as error:
            raise unreadable(self._kind, self._version, str(error)) from None
        check_shape(obj)
        if (found or unknown) and self._directive == _STRICT:
            raise unreadable(self._kind, self._version, _strict([*found, *unknown]))
        self._warn([*lines, *unknown])
        return obj

    def patch(self, body: bytes, content_type: str) -> Callable[[Json], Json]:
        """The change that a patch asks for; what comes of it has been checked."""
        change = patch_function(body, content_type)
        media = media_type(content_type)
        repeated = self._repeated(body) if media.endswith("+json") else []

        def checked(obj: Json) -> Json:
            changed = change(obj)
            shown = _shown(media, body, changed) if self._directive == _STRICT else ""
            try:
                found = [*repeated, *self._unknown(changed)]
            except UnreadableError as error:
                raise _invalid_patch(_shown(media, body, changed), str(error)) from None
            check_shape(changed)
            if found and self._directive == _STRICT:
                raise _invalid_patch(shown, _strict(found))
            self._warn(found)
            return changed

        return checked

    def _repeated(self, body: bytes) -> list[str]:
        return [] if self._directive == _IGNORE else repeated_fields(body)

    def _unknown(self, obj: Json) -> list[str]:
        if self._message is None or obj.get("kind", self._kind) != self._kind:
            return []  # a wrong kind is refused later
        return check_fields(self._message, obj)

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
