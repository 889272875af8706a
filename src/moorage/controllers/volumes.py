"""PersistentVolumes and claims for them: who gets which, and a provisioner for the rest.

Volumes are made for any StorageClass that names a provisioner; nothing is behind them.
Upstream: kubernetes@v1.37.1 pkg/controller/volume/persistentvolume.
"""

from collections.abc import Iterator

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.objects import Json, annotations, is_going, labels, meta, spec, status
from moorage.controllers.objects import selector_of as label_selector
from moorage.controllers.plan import Note, Plan
from moorage.model.quantity import parse_milli
from moorage.model.storage import (
    BETA_STORAGE_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    FILESYSTEM,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
)

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_YES = "yes"


# ---- claims ----


def reconcile_claim(cluster: ClusterObjects, claim: Json, now: float) -> Plan:
    """Bind a claim to the volume that it names, that names it, that suits it, or a new one."""
    del now
    plan = Plan()
    name = spec(claim).get("volumeName", "")
    if is_going(claim):
        return plan
    if not name:
        volume = _best(cluster, claim)
        if volume is not None:
            _bind(plan, volume, claim)
        else:
            _set_phase(plan, claim, "Pending")
            _provide(plan, cluster, claim)
        return plan
    volume = cluster.get(VOLUME, "", name)
    if volume is not None and (not _claim_ref(volume) or _is_for(volume, claim)):
        _bind(plan, volume, claim)
    elif BIND_COMPLETED in annotations(claim):
        _set_phase(plan, claim, "Lost")
    else:
        _set_phase(plan, claim, "Pending")
    return plan


def _best(cluster: ClusterObjects, claim: Json) -> Json | None:
    """The volume that names the claim, else, unless the claim waits for a pod, the smallest."""
    found = [volume for volume in cluster.all(VOLUME) if _suits(volume, claim)]
    for volume in found:
        if _is_for(volume, claim):
            return volume
    if _waits_for_pod(cluster, claim):
        return None
    free = [volume for volume in found if _is_free(volume, claim)]
    return min(free, key=lambda volume: (_capacity(volume), meta(volume)["name"]), default=None)


def _suits(volume: Json, claim: Json) -> bool:
    wanted = (spec(claim).get("resources") or {}).get("requests") or {}
    modes = (spec(one).get("volumeMode") or FILESYSTEM for one in (volume, claim))
    return (
        len(set(modes)) == 1
        and _capacity(volume) >= parse_milli(wanted.get("storage", 0))
        and not is_going(volume)
    )


def _is_free(volume: Json, claim: Json) -> bool:
    selector = label_selector(claim)
    return (
        not _claim_ref(volume)
        and status(volume).get("phase") == "Available"
        and class_of(volume) == class_of(claim)
        and set(spec(claim).get("accessModes") or ()) <= set(spec(volume).get("accessModes") or ())
        and (selector is None or selector.matches(labels(volume)))
    )


def _capacity(volume: Json) -> int:
    return parse_milli((spec(volume).get("capacity") or {}).get("storage", 0))


def class_of(obj: Json) -> str:
    """The StorageClass of a volume or claim; the old annotation outranks the field."""
    named: str = annotations(obj).get(BETA_STORAGE_CLASS) or spec(obj).get("storageClassName") or ""
    return named


def _claim_ref(volume: Json) -> Json:
    return spec(volume).get("claimRef") or {}


def _is_for(volume: Json, claim: Json) -> bool:
    """Does the volume name the claim? Whoever made it need not have known the uid."""
    ref = _claim_ref(volume)
    named = (ref.get("namespace"), ref.get("name"))
    return named == (meta(claim)["namespace"], meta(claim)["name"]) and (
        ref.get("uid") in (None, "", meta(claim)["uid"])
    )


def _waits_for_pod(cluster: ClusterObjects, claim: Json) -> bool:
    found = cluster.get(CLASS, "", class_of(claim))
    mode = found.get("volumeBindingMode") if found else None
    return mode == WAIT_FOR_FIRST_CONSUMER and SELECTED_NODE not in annotations(claim)


def _bind(plan: Plan, volume: Json, claim: Json) -> None:
    """Both point to each other, and say so; each step is taken only once."""
    if _claim_ref(volume).get("uid") != meta(claim)["uid"]:
        whose = {
            "apiVersion": "v1",
            "kind": CLAIM,
            "namespace": meta(claim)["namespace"],
            "name": meta(claim)["name"],
            "uid": meta(claim)["uid"],
        }
        by = {} if _claim_ref(volume) else {"annotations": {BOUND_BY_CONTROLLER: _YES}}
        plan.change(volume, metadata=by, spec={"claimRef": whose})
    if BIND_COMPLETED not in annotations(claim) or not spec(claim).get("volumeName"):
        own = {} if spec(claim).get("volumeName") else {BOUND_BY_CONTROLLER: _YES}
        done = {"annotations": {BIND_COMPLETED: _YES, **own}}
        plan.change(claim, metadata=done, spec={"volumeName": meta(volume)["name"]})
    plan.set_status(volume, {**status(volume), "phase": "Bound"})
    given = {"accessModes": spec(volume).get("accessModes"), "capacity": spec(volume)["capacity"]}
    plan.set_status(claim, {**status(claim), "phase": "Bound", **given})


def _set_phase(plan: Plan, obj: Json, phase: str) -> None:
    plan.set_status(obj, {**status(obj), "phase": phase})


def _provide(plan: Plan, cluster: ClusterObjects, claim: Json) -> None:
    """Make a volume, or say what the claim waits for."""
    name = class_of(claim)
    storage = cluster.get(CLASS, "", name)
    if not name:
        text = "no persistent volumes available for this claim and no storage class is set"
        plan.writes.append(Note(claim, "FailedBinding", text))
    elif storage is None:
        text = f'storageclass.storage.k8s.io "{name}" not found'
        plan.writes.append(Note(claim, "ProvisioningFailed", text, "Warning"))
    elif _waits_for_pod(cluster, claim):
        text = "waiting for first consumer to be created before binding"
        plan.writes.append(Note(claim, "WaitForFirstConsumer", text))
    elif storage.get("provisioner") != NO_PROVISIONER:
        node = cluster.get("Node", "", annotations(claim).get(SELECTED_NODE, ""))
        made = _new_volume(claim, storage, node)
        text = f"Successfully provisioned volume {meta(made)['name']}"
        plan.create(made, Note(claim, "ProvisioningSucceeded", text))


def _new_volume(claim: Json, storage: Json, node: Json | None) -> Json:
    provisioner, name = storage["provisioner"], f"pvc-{meta(claim)['uid']}"
    source = {"csi": {"driver": provisioner, "volumeHandle": name}}
    if "/" in provisioner:  # which no CSI driver may be called
        source = {"hostPath": {"path": f"/var/lib/moorage/{name}"}}
    body: Json = {
        "apiVersion": "v1",
        "kind": VOLUME,
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: provisioner}},
        "spec": {
            **source,
            "capacity": spec(claim)["resources"]["requests"],
            "accessModes": spec(claim)["accessModes"],
            "volumeMode": spec(claim).get("volumeMode") or FILESYSTEM,
            "storageClassName": meta(storage)["name"],
            "persistentVolumeReclaimPolicy": storage.get("reclaimPolicy") or "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": CLAIM,
                "namespace": meta(claim)["namespace"],
                "name": meta(claim)["name"],
                "uid": meta(claim)["uid"],
            },
        },
    }
    terms = [_reach(term, node) for term in storage.get("allowedTopologies") or ()]
    if terms:
        body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return body


def _reach(term: Json, node: Json | None) -> Json:
    """Where the volume is: with a node, in that node's zone or whatever the class tells apart."""
    expressions = []
    for one in term.get("matchLabelExpressions") or ():
        here = labels(node).get(one["key"]) if node else None
        values = [here] if here in one["values"] else one["values"]
        expressions.append({"key": one["key"], "operator": "In", "values": values})
    return {"matchExpressions": expressions}


# ---- volumes ----


def reconcile_volume(cluster: ClusterObjects, volume: Json, now: float) -> Plan:
    """Say whether a volume is free, in use or left over; what is left over may have to go."""
    del now
    plan = Plan()
    ref = _claim_ref(volume)
    if is_going(volume):
        return plan
    if not ref.get("uid"):
        _set_phase(plan, volume, "Available")
        return plan
    claim = cluster.get(CLAIM, ref["namespace"], ref["name"])
    if claim is None or meta(claim)["uid"] != ref["uid"]:
        _set_phase(plan, volume, "Released")
        if spec(volume).get("persistentVolumeReclaimPolicy") == "Delete":
            plan.delete(volume)
    elif spec(claim).get("volumeName") == meta(volume)["name"]:
        _set_phase(plan, volume, "Bound")
    elif spec(claim).get("volumeName"):  # it has another one
        if _PROVISIONED_BY in annotations(volume):
            plan.delete(volume)
        else:
            plan.change(volume, spec={"claimRef": None})
    return plan


def concerned(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """Who else has to be looked at when a claim, a volume or a class has changed."""
    for obj in (before, after):
        if obj is None:
            continue
        match obj["kind"]:
            case "PersistentVolumeClaim":
                volume = cluster.get(VOLUME, "", spec(obj).get("volumeName", ""))
                if volume is not None:
                    yield key_of(volume)
                elif after is None:
                    yield from (key_of(one) for one in cluster.all(VOLUME) if _is_for(one, obj))
            case "PersistentVolume":
                ref = _claim_ref(obj)
                claim = cluster.get(CLAIM, ref.get("namespace", ""), ref.get("name", ""))
                if claim is not None:
                    yield key_of(claim)
                if obj is after and not ref:
                    yield from _waiting(cluster, class_of(obj))
            case "StorageClass":
                yield from _waiting(cluster, meta(obj)["name"])


def _waiting(cluster: ClusterObjects, storage_class: str) -> Iterator[Key]:
    for claim in cluster.all(CLAIM):
        if not spec(claim).get("volumeName") and class_of(claim) == storage_class:
            yield key_of(claim)
