"""What a scheduler knows of an object, as YAML for people.

Owns which parts are shown: those that the model decodes, less annotations. What a pod runs, its
environment and its probes are never decoded, so they cannot be told to anybody; annotations may
hold all of that again (`kubectl apply` puts the whole object into one).
"""

from typing import Any

import msgspec
import yaml

from moorage.kube.event_series import reference
from moorage.model.meta import ApiObject, ObjectMeta

_LEFT_OUT = "annotations"


def known_yaml(obj: ApiObject) -> str:
    """The known parts that differ from their defaults, in the order of the API."""
    about = reference(obj)
    shown = {"apiVersion": about.api_version, "kind": about.kind, **_plain(obj)}
    return yaml.safe_dump(shown, sort_keys=False)


def _plain(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            fields = [
                (field, getattr(value, field.name))
                for field in msgspec.structs.fields(value)
                if not (isinstance(value, ObjectMeta) and field.name == _LEFT_OUT)
            ]
            return {field.encode_name: _plain(of) for field, of in fields if _is_set(field, of)}
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    return msgspec.to_builtins(value)


def _is_set(field: msgspec.structs.FieldInfo, value: Any) -> bool:
    if field.default_factory is not msgspec.NODEFAULT:
        return bool(value != field.default_factory())
    return bool(value != field.default)
