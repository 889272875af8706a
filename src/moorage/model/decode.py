"""From the API's JSON to frozen objects: the only place that knows which kind is which type.

Objects come as bytes (the API server, JSON files) or as mappings (YAML files). Everything that is
wrong becomes a `DecodeError`, one sentence that names the place, the object and the field. What a
type cannot express (a bad quantity, an unknown operator) is left to `checks.check_object`.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from moorage.errors import DecodeError
from moorage.model.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from moorage.model.workloads import (
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from moorage.printable import printable

T = TypeVar("T", bound=ApiObject)

DEFAULT_NAMESPACE = "default"

# In these maps a null is an empty string, as in Go: `node-role.kubernetes.io/worker:` is how
# people write a label without a value.
_STRING_MAPS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})


class Kind(msgspec.Struct, frozen=True):
    """A kind of object: where the API has it, and what it becomes here."""

    struct: type[ApiObject]
    group: str
    versions: tuple[str, ...]
    namespaced: bool

    @property
    def name(self) -> str:
        """The API's word for it, which is also the type's."""
        return self.struct.__name__


class UnknownKind(msgspec.Struct, frozen=True):
    """An object that a scheduler has no use for."""

    kind: str
    api_version: str


def _table() -> dict[str, Kind]:
    def kinds(
        group: str, versions: tuple[str, ...], *structs: type[ApiObject], namespaced: bool
    ) -> list[Kind]:
        return [Kind(struct, group, versions, namespaced) for struct in structs]

    v1 = ("v1",)
    dra = ("v1", "v1beta2")  # the two have the same shape
    rows = [
        *kinds("", v1, Node, Namespace, PersistentVolume, namespaced=False),
        *kinds("", v1, Pod, Service, ReplicationController, namespaced=True),
        *kinds("", v1, PersistentVolumeClaim, namespaced=True),
        *kinds("apps", v1, ReplicaSet, StatefulSet, namespaced=True),
        *kinds("policy", v1, PodDisruptionBudget, namespaced=True),
        *kinds("scheduling.k8s.io", v1, PriorityClass, namespaced=False),
        *kinds("scheduling.k8s.io", ("v1beta1", "v1alpha3"), PodGroup, namespaced=True),
        *kinds("storage.k8s.io", v1, StorageClass, CSINode, CSIDriver, namespaced=False),
        *kinds("storage.k8s.io", v1, VolumeAttachment, namespaced=False),
        *kinds("storage.k8s.io", v1, CSIStorageCapacity, namespaced=True),
        *kinds("resource.k8s.io", dra, DeviceClass, DeviceTaintRule, namespaced=False),
        *kinds("resource.k8s.io", dra, ResourceSlice, namespaced=False),
        *kinds("resource.k8s.io", dra, ResourceClaim, ResourceClaimTemplate, namespaced=True),
    ]
    return {row.name: row for row in rows}


KINDS: Mapping[str, Kind] = _table()


def describe(kind: str, namespace: str, name: str) -> str:
    """How messages call an object: `Pod default/web`."""
    if not name:
        return kind
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def sentence(*parts: str) -> str:
    """Place, object and complaint in one line; empty parts are left out."""
    return printable(": ".join(part for part in parts if part))


def decode_object(data: Mapping[str, Any] | bytes, where: str) -> ApiObject | UnknownKind:
    """An object of any kind; `where` (file and position) begins every message."""
    plain = _parse(data, where) if isinstance(data, bytes) else without_nulls(data)
    if not isinstance(plain, dict):
        raise DecodeError(
            sentence(where, f"an object is a mapping with apiVersion and kind, not {_shown(plain)}")
        )
    kind, api_version = (_text(plain, field, where) for field in ("kind", "apiVersion"))
    known = KINDS.get(kind)
    group, _, version = api_version.rpartition("/")
    if known is None or known.group != group:
        return UnknownKind(kind, api_version)
    if version not in known.versions:
        prefix = f"{group}/" if group else ""
        choices = " or ".join(prefix + choice for choice in known.versions)
        raise DecodeError(
            sentence(where, _subject(known, plain), f"apiVersion {api_version} is not {choices}")
        )
    return _settled(_convert(known, plain, where), known)


def decode_json(struct: type[T], data: bytes, where: str = "") -> T:
    """An object whose type is known beforehand, as on a watch; the fast path."""
    known = KINDS[struct.__name__]
    try:
        decoded = _decoder(struct).decode(data)
    except msgspec.ValidationError:
        # Go writes null for some empty lists, which the types do not allow. That is rare, so it
        # is looked for only here; a real mistake is found again and reported.
        decoded = _convert(known, _parse(data, where), where)
    except msgspec.DecodeError as error:
        raise DecodeError(sentence(where, f"this is not JSON: {error}")) from None
    settled = _settled(decoded, known)
    assert isinstance(settled, struct)
    return settled


def decode_plain(struct: type[T], plain: Any, where: str = "") -> T:
    """The same, from JSON that is already parsed."""
    known = KINDS[struct.__name__]
    settled = _settled(_convert(known, without_nulls(plain), where), known)
    assert isinstance(settled, struct)
    return settled


def without_nulls(value: Any, field: str = "") -> Any:
    """`value` with null members left out and every key a string, as Go reads JSON and YAML."""
    if isinstance(
        value, str
    ):  # what most values are, and sooner told than that they are no mapping
        return value
    if isinstance(value, Mapping):
        if field in _STRING_MAPS:
            return {
                _key(name): "" if item is None else without_nulls(item)
                for name, item in value.items()
            }
        return {
            (key := _key(name)): without_nulls(item, key)
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _key(name: Any) -> str:
    if isinstance(name, str):
        return name
    return str(name).lower() if isinstance(name, bool) else str(name)


@lru_cache(maxsize=64)
def _decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(struct)


def _parse(data: bytes, where: str) -> Any:
    try:
        return without_nulls(msgspec.json.decode(data))
    except msgspec.DecodeError as error:
        raise DecodeError(sentence(where, f"this is not JSON: {error}")) from None


def _text(data: dict[str, Any], field: str, where: str) -> str:
    value = data.get(field)
    if value is None or value == "":
        raise DecodeError(sentence(where, f"{field} is missing; an object needs it"))
    if not isinstance(value, str):
        raise DecodeError(sentence(where, f"{field} must be a string, not {_shown(value)}"))
    return value


def _settled(obj: ApiObject, known: Kind) -> ApiObject:
    """The object with its kind and namespace in order; most come in order from the API server."""
    namespace = obj.metadata.namespace
    wanted = (namespace or DEFAULT_NAMESPACE) if known.namespaced else ""
    if namespace != wanted:
        metadata = msgspec.structs.replace(obj.metadata, namespace=wanted)
        obj = msgspec.structs.replace(obj, metadata=metadata)
    if not obj.kind:  # members of a list do not repeat it
        version = f"{known.group}/{known.versions[0]}".lstrip("/")
        obj = msgspec.structs.replace(obj, kind=known.name, api_version=version)
    return obj


def _convert(known: Kind, plain: Any, where: str) -> ApiObject:
    try:
        return msgspec.convert(plain, known.struct)
    except msgspec.ValidationError as error:
        text = explain(str(error), plain)
        raise DecodeError(sentence(where, _subject(known, plain), text)) from None
    except UnicodeEncodeError:
        text = "a string holds half of a surrogate pair, which is no character"
        raise DecodeError(sentence(where, _subject(known, plain), text)) from None


def _subject(known: Kind, plain: Any) -> str:
    metadata = plain.get("metadata") if isinstance(plain, dict) else None
    if not isinstance(metadata, dict):
        return known.name
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if known.namespaced else ""
    return describe(known.name, namespace, name)


# ---- messages of msgspec in the words of a person who wrote a file ----

_MESSAGE = re.compile(r"Expected `(?P<want>[^`]+)`, got `(?P<got>[^`]+)`(?: - at `\$(?P<at>.*)`)?")
_RANGE = re.compile(r"Expected `int` (?P<bound>[<>]= -?\d+) - at `\$(?P<at>.*)`")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\[(\.\.\.)\]")
_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_QUANTITY = {"int", "float", "str"}


def explain(message: str, plain: Any) -> str:
    """A message of msgspec as `spec.priority must be an integer, not the string "high"`."""
    match = _MESSAGE.fullmatch(message)
    if match is None:
        match = _RANGE.fullmatch(message)
        if match is None:
            return message
        side = "at least" if match["bound"][0] == ">" else "at most"
        return f"{_as_written(match['at'])}: the number must be {side} {match['bound'][3:]}"
    wanted = set(match["want"].split(" | ")) - {"null"}
    if wanted == _QUANTITY:
        expected = "a quantity such as 100m or 2Gi"
    else:
        expected = " or ".join(_NAMES.get(name, name) for name in sorted(wanted))
    steps = [(field, index, key) for field, index, key in _STEP.findall(match["at"] or "")]
    path, value = _locate(plain, steps, match["got"]) or (_as_written(match["at"] or ""), ...)
    got = _shown(value) if value is not ... else _NAMES.get(match["got"], match["got"])
    hint = "; put it in quotes" if wanted == {"str"} and isinstance(value, int | float) else ""
    return f"{path or 'the object'} must be {expected}, not {got}{hint}"


def _as_written(path: str) -> str:
    return path.removeprefix(".")


def _locate(
    value: Any, steps: list[tuple[str, str, str]], got: str, path: str = ""
) -> tuple[str, Any] | None:
    """Follow a path; where it says "some member of this map", find the first one of type `got`."""
    if not steps:
        return (path, value) if _type_name(value) == got else None
    (field, index, _), rest = steps[0], steps[1:]
    if index:
        found = isinstance(value, list) and int(index) < len(value)
        return _locate(value[int(index)], rest, got, f"{path}[{index}]") if found else None
    if not isinstance(value, dict):
        return None
    if field:
        return _locate(value.get(field), rest, got, f"{path}.{field}".removeprefix("."))
    members = (_locate(item, rest, got, f"{path}[{name}]") for name, item in value.items())
    return next((member for member in members if member is not None), None)


def _type_name(value: Any) -> str:
    names = {dict: "object", list: "array", type(None): "null"}
    return names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the string "{value}"' if len(value) <= 40 else f'the string "{value[:40]}..."'
    return _NAMES.get(_type_name(value), _type_name(value))
