"""What is refused with 400 (cannot be read) or 422 (can be read but means nothing).

Names and container lists are checked here; everything a scheduler reads is checked by
`moorage.model.checks`, whose sentences become causes with a field path. Must not repair anything.
Upstream: apimachinery pkg/api/validation, kubernetes@v1.37.1 pkg/apis/core/validation.
"""

from collections.abc import Iterator
from functools import lru_cache

import msgspec

from moorage.apiserver.custom_resources import DEFINITIONS, definition_causes
from moorage.apiserver.defaults import mappings
from moorage.apiserver.errors import Cause, Json, invalid, unreadable
from moorage.apiserver.resources import STORED_AS, ApiResource
from moorage.apiserver.schemas import check, schema_of
from moorage.errors import DecodeError
from moorage.model.checks import check_object
from moorage.model.decode import KINDS, decode_object, describe, explain, without_nulls
from moorage.model.labels import LabelSelector, compile_selector
from moorage.model.meta import ApiObject
from moorage.model.spelling import (
    CONFIG_KEY,
    DNS_1035_LABEL,
    DNS_LABEL,
    LABEL_VALUE,
    SUBDOMAIN,
    label_key_errors,
)

_PATH_SEGMENT_GROUPS = ("rbac.authorization.k8s.io",)
_REQUIRED = "FieldValueRequired"
_DUPLICATE = "FieldValueDuplicate"
_NAMES = {"namespaces": DNS_LABEL, "services": DNS_1035_LABEL}
_WORKLOADS = ("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps")


class _Labelled(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Template(msgspec.Struct):
    """What of a pod template its selector looks at."""

    metadata: _Labelled = msgspec.field(default_factory=_Labelled)


def validate(resource: ApiResource, obj: Json) -> ApiObject:
    """Refuse what cannot be read or cannot mean anything; answers with the object as read."""
    model = read(resource, obj)
    name = str(obj["metadata"].get("name", ""))
    causes = [*_name_causes(resource, name), *_metadata_causes(obj["metadata"])]
    if resource.storage == "pods":
        causes += _pod_causes(obj.get("spec") or {})
    elif resource.storage in ("configmaps", "secrets"):
        causes += _data_causes(obj)
    elif resource.storage == DEFINITIONS:
        causes += definition_causes(obj)
    elif resource.schema:
        causes += check(schema_of(resource.schema), obj)
    elif resource.storage in _WORKLOADS:
        causes += _workload_causes(resource, obj)
    if not causes:
        causes += _model_causes(model)
    if causes:
        raise invalid(resource.kind, resource.group, name, causes)
    return model


def validate_status(resource: ApiResource, obj: Json) -> None:
    """Refuse a status that the schema of a custom resource does not allow."""
    known = schema_of(resource.schema).get("properties", {}) if resource.schema else {}
    found = check(known.get("status", {}), obj.get("status"))
    causes = [cause._replace(field=f"status.{cause.field}") for cause in found]
    if causes:
        raise invalid(resource.kind, resource.group, obj["metadata"]["name"], causes)


def read(resource: ApiResource, obj: Json) -> ApiObject:
    """The object in the model's types; raises a 400 where a type is wrong."""
    target = _struct(resource.storage)
    try:
        return msgspec.convert(obj, target)
    except msgspec.ValidationError:
        pass  # perhaps only nulls, which the model's own way of reading leaves out
    try:
        if target is not ApiObject:
            decoded = decode_object(obj, "")
            assert isinstance(decoded, ApiObject)
            return decoded
        return msgspec.convert(without_nulls(obj), target)
    except DecodeError as error:
        subject = _subject(obj)
        raise unreadable(
            resource.kind, resource.version, str(error).removeprefix(f"{subject}: ")
        ) from None
    except msgspec.ValidationError as error:
        raise unreadable(resource.kind, resource.version, explain(str(error), obj)) from None


def _subject(obj: Json) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name") or metadata.get("generateName") or "")
    return describe(str(obj.get("kind")), str(metadata.get("namespace") or ""), name)


@lru_cache(maxsize=128)
def _struct(storage: str) -> type[ApiObject]:
    row = STORED_AS.get(storage)
    if row is None:
        return ApiObject
    known = KINDS.get(row.kind)
    if known is None or known.group != row.group or row.version not in known.versions:
        return ApiObject
    return known.struct


def _model_causes(model: ApiObject) -> Iterator[Cause]:
    try:
        check_object(model, "")
    except DecodeError as error:
        metadata = model.metadata
        name = metadata.name or metadata.generate_name
        subject = describe(model.kind or type(model).__name__, metadata.namespace, name)
        path, _, text = str(error).removeprefix(f"{subject}: ").partition(": ")
        if text.endswith("is required"):
            yield Cause(path, f"Required value: {text}", _REQUIRED)
        else:
            yield Cause(path, f"Invalid value: {text}")


def _name_causes(resource: ApiResource, name: str) -> Iterator[Cause]:
    if resource.group in _PATH_SEGMENT_GROUPS:
        if name in (".", "..") or "/" in name or "%" in name:
            yield Cause("metadata.name", f'Invalid value: "{name}": may not contain "/" or "%"')
        return
    rule = _NAMES.get(resource.storage, SUBDOMAIN)
    if not rule.matches(name):
        yield Cause("metadata.name", f'Invalid value: "{name}": {rule.complaint}')
    if len(name) > rule.longest:
        text = f'Invalid value: "{name}": must be no more than {rule.longest} characters'
        yield Cause("metadata.name", text)


def _metadata_causes(metadata: Json) -> Iterator[Cause]:
    for field in ("labels", "annotations"):
        at = f"metadata.{field}"
        for key, value in (metadata.get(field) or {}).items():
            # Upper case is no mistake in the prefix of an annotation.
            for text in label_key_errors(key if field == "labels" else key.lower()):
                yield Cause(at, f'Invalid value: "{key}": {text}')
            for text in LABEL_VALUE.errors(value) if field == "labels" else ():
                yield Cause(at, f'Invalid value: "{value}": {text}')


def _data_causes(obj: Json) -> Iterator[Cause]:
    for field in ("data", "stringData", "binaryData"):
        for key in obj.get(field) or {}:
            if key in (".", "..") or not CONFIG_KEY.matches(key):
                why = f"must not be '{key}'" if CONFIG_KEY.matches(key) else CONFIG_KEY.complaint
                yield Cause(f"{field}[{key}]", f'Invalid value: "{key}": {why}')
            for text in CONFIG_KEY.too_long(key):
                yield Cause(f"{field}[{key}]", f'Invalid value: "{key}": {text}')


def _pod_causes(spec: Json) -> list[Cause]:
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(Cause("spec.containers", "Required value", _REQUIRED))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(mappings(spec.get(field))):
            at = f"spec.{field}[{index}]"
            name = str(container.get("name") or "")
            if not name:
                causes.append(Cause(f"{at}.name", "Required value", _REQUIRED))
            elif DNS_LABEL.errors(name):
                causes.append(
                    Cause(f"{at}.name", f'Invalid value: "{name}": {DNS_LABEL.complaint}')
                )
            elif name in seen:
                causes.append(Cause(f"{at}.name", f'Duplicate value: "{name}"', _DUPLICATE))
            seen.add(name)
            if not container.get("image"):
                causes.append(Cause(f"{at}.image", "Required value", _REQUIRED))
    if spec.get("restartPolicy") not in ("Always", "OnFailure", "Never"):
        value = spec.get("restartPolicy")
        text = f'Unsupported value: "{value}": supported values: "Always", "Never", "OnFailure"'
        causes.append(Cause("spec.restartPolicy", text, "FieldValueNotSupported"))
    causes += _volume_causes(spec)
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "Forbidden: cannot be set until all schedulingGates have been cleared"
        causes.append(Cause("spec.nodeName", text, "FieldValueForbidden"))
    return causes


def _workload_causes(resource: ApiResource, obj: Json) -> Iterator[Cause]:
    """A workload that would not find its own pods, or is to have fewer than none."""
    spec = obj.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    replicas = spec.get("replicas")
    if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool)):
        field = f"{resource.kind}Spec.spec.replicas"
        kind = {str: "string", bool: "bool", float: "number"}.get(type(replicas), "object")
        why = f"json: cannot unmarshal {kind} into Go struct field {field} of type int32"
        raise unreadable(resource.kind, resource.version, why)
    if replicas is not None and replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        yield Cause("spec.replicas", text)
    if spec.get("selector") is None:
        yield Cause("spec.selector", "Required value", _REQUIRED)
        return
    if not spec["selector"]:
        # Upstream calls a ReplicaSet a deployment here.
        word = "deployment" if resource.kind == "ReplicaSet" else resource.kind.lower()
        text = f"Invalid value: {{}}: empty selector is invalid for {word}"
        yield Cause("spec.selector", text)
        return
    try:
        selector = compile_selector(msgspec.convert(spec["selector"], LabelSelector))
        template = msgspec.convert(spec.get("template") or {}, _Template)
    except (msgspec.ValidationError, ValueError) as error:
        raise unreadable(resource.kind, resource.version, str(error)) from None
    labels = template.metadata.labels or {}
    if not selector.matches(labels):
        value = msgspec.json.encode(labels or None).decode()
        text = f"Invalid value: {value}: `selector` does not match template `labels`"
        yield Cause("spec.template.metadata.labels", text)


def _volume_causes(spec: Json) -> list[Cause]:
    causes: list[Cause] = []
    names = {str(volume.get("name") or "") for volume in mappings(spec.get("volumes"))}
    if "" in names:
        causes.append(Cause("spec.volumes", "Required value: a volume needs a name", _REQUIRED))
    for field in ("initContainers", "containers"):
        for index, container in enumerate(mappings(spec.get(field))):
            for place, mount in enumerate(mappings(container.get("volumeMounts"))):
                name = str(mount.get("name") or "")
                if name not in names:
                    at = f"spec.{field}[{index}].volumeMounts[{place}].name"
                    causes.append(Cause(at, f'Not found: "{name}"', "FieldValueNotFound"))
    return causes
