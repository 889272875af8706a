"""What a client may change in an object that exists, and what the server keeps.

Main updates keep the status, status updates keep the rest; identity always stays.
Upstream: each registry's strategy; kubernetes@v1.37.1 pkg/apis/core/validation
`ValidatePodUpdate`.
"""

from typing import Any

import msgspec

from moorage.apiserver.defaults import (
    TEMPLATE_GENERATION,
    apply_defaults,
    default_tolerations,
    mappings,
)
from moorage.apiserver.errors import Cause, Json, conflict, invalid
from moorage.apiserver.metadata import bump_generation, keep_identity, metadata_of, value_at
from moorage.apiserver.resources import STATUS, ApiResource

_POD_RULE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_FORBIDDEN = "FieldValueForbidden"


def check_same_object(resource: ApiResource, name: str, obj: Json, old: Json) -> None:
    """Refuse an update of another version or another incarnation than the stored one."""
    metadata, current = metadata_of(obj), old["metadata"]
    version = metadata.get("resourceVersion")
    if version and version not in ("0", current["resourceVersion"]):
        raise conflict(resource.plural, resource.group, name)
    uid = metadata.get("uid")
    if uid and uid != current["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
        raise conflict(resource.plural, resource.group, name, why + current["uid"])


def check_patched_uid(resource: ApiResource, obj: Json, old: Json) -> None:
    """Refuse a patch that names the uid of another object; upstream calls that invalid."""
    uid, current = metadata_of(obj).get("uid"), old["metadata"]
    if uid and uid != current["uid"]:
        cause = Cause("metadata.uid", f'Invalid value: "{uid}": field is immutable')
        raise invalid(resource.kind, resource.group, current["name"], [cause])


def prepare_update(resource: ApiResource, obj: Json, old: Json) -> None:
    """Turn a client's object into the one to store."""
    keep_identity(obj, old)
    if STATUS in resource.subresources:
        if "status" in old:
            obj["status"] = old["status"]
        else:
            obj.pop("status", None)
    apply_defaults(resource.storage, obj)
    if resource.storage == "pods":
        _prepare_pod(obj, old)
    elif resource.storage == "daemonsets.apps":
        _count_template(obj, old)
    elif resource.storage == "namespaces":
        obj["spec"] = old.get("spec", {})
    bump_generation(obj, old)


def prepare_status(obj: Json, old: Json) -> Json:
    """The stored object with the client's status; labels and annotations may come along.

    Takes `old` over: it is a fresh copy that nobody else holds.
    """
    result = old
    if "status" in obj:
        result["status"] = obj["status"]
    else:
        result.pop("status", None)
    metadata = metadata_of(obj)
    for field in ("labels", "annotations", "finalizers"):
        if metadata.get(field):
            result["metadata"][field] = metadata[field]
        elif field in result["metadata"]:
            del result["metadata"][field]
    return result


def check_update(resource: ApiResource, obj: Json, old: Json) -> None:
    """Refuse changes of what is fixed when an object is created."""
    name = old["metadata"]["name"]
    causes: list[Cause] = []
    if resource.storage == "pods":
        causes = _pod_causes(obj["spec"], old["spec"])
    for path in resource.fixed:
        steps = path.split(".")
        if value_at(obj, steps) != value_at(old, steps):
            causes.append(Cause(path, "Invalid value: field is immutable"))
    if causes:
        raise invalid(resource.kind, resource.group, name, causes)


def _count_template(obj: Json, old: Json) -> None:
    """A DaemonSet's templates are numbered, and its pods say which one they are of."""
    before = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, 0))
    changed = obj["spec"].get("template") != old["spec"].get("template")
    obj["metadata"]["annotations"][TEMPLATE_GENERATION] = str(before + changed)


def _prepare_pod(obj: Json, old: Json) -> None:
    """Fields that admission computed may be left out of an update, as old clients do."""
    spec, before = obj["spec"], old["spec"]
    for field in ("priority", "priorityClassName", "preemptionPolicy", "nodeName"):
        if field in before and spec.get(field) is None:
            spec[field] = before[field]
    if before.get("tolerations") and not spec.get("tolerations"):
        spec["tolerations"] = before["tolerations"]
    elif before.get("tolerations"):
        default_tolerations(spec)  # as upstream's admission does on updates too


def _pod_causes(spec: Json, before: Json) -> list[Cause]:
    causes: list[Cause] = []
    gates = [gate.get("name") for gate in mappings(spec.get("schedulingGates"))]
    old_gates = [gate.get("name") for gate in mappings(before.get("schedulingGates"))]
    if not set(gates) <= set(old_gates):
        text = "Forbidden: only deletion is allowed, but found new scheduling gates"
        causes.append(Cause("spec.schedulingGates", text, _FORBIDDEN))
    if not _only_seconds_changed(spec.get("tolerations"), before.get("tolerations")):
        text = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        causes.append(Cause("spec.tolerations", text, _FORBIDDEN))
    allowed = {"schedulingGates", "tolerations", "activeDeadlineSeconds"}
    if before.get("terminationGracePeriodSeconds", 0) < 0:
        allowed.add("terminationGracePeriodSeconds")
    if old_gates:
        # A gated pod is still being written: what narrows its placement may be added.
        allowed |= {"nodeSelector", "affinity"}
    if _without(spec, allowed) != _without(before, allowed):
        causes.append(Cause("spec", _POD_RULE, _FORBIDDEN))
    return causes


def _only_seconds_changed(now: Any, before: Any) -> bool:
    def bare(toleration: Json) -> bytes:
        rest = {name: v for name, v in toleration.items() if name != "tolerationSeconds"}
        return msgspec.json.encode(rest, order="sorted")

    present = {bare(toleration) for toleration in mappings(now)}
    return all(bare(toleration) in present for toleration in mappings(before))


def _without(spec: Json, fields: set[str]) -> Json:
    rest = {name: value for name, value in spec.items() if name not in fields and value != []}
    for field in ("containers", "initContainers"):
        if field in rest:
            rest[field] = [
                {name: value for name, value in container.items() if name != "image"}
                for container in mappings(rest[field])
            ]
    return rest
