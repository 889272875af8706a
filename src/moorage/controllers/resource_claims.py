"""ResourceClaims: made from templates for pods, and free again when the last pod is done with them.

Upstream: kubernetes@v1.37.1 pkg/controller/resourceclaim.
"""

from collections.abc import Iterator

from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.objects import (
    Json,
    annotations,
    controller_of,
    is_finished,
    is_going,
    meta,
    reference_to,
    spec,
    status,
)
from moorage.controllers.plan import Plan

KIND, TEMPLATE = "ResourceClaim", "ResourceClaimTemplate"
_FOR = "resource.kubernetes.io/pod-claim-name"
_FINALIZER = "resource.kubernetes.io/delete-protection"
_LONGEST = 57


def needs_claims(pod: Json) -> bool:
    """Does a pod wait for claims to be made?"""
    return bool(_missing(pod)) and not is_finished(pod) and not is_going(pod)


def _missing(pod: Json) -> list[Json]:
    """What the pod asks for that its status does not name yet."""
    known = {one["name"] for one in status(pod).get("resourceClaimStatuses") or ()}
    asked = spec(pod).get("resourceClaims") or ()
    return [
        one for one in asked if one.get("resourceClaimTemplateName") and one["name"] not in known
    ]


def reconcile_pod(cluster: ClusterObjects, pod: Json, now: float) -> Plan:
    """Make the claims that a pod's templates describe, and name them in its status."""
    del now
    plan = Plan()
    if not needs_claims(pod):
        return plan
    made = {annotations(one).get(_FOR): meta(one)["name"] for one in cluster.controlled(KIND, pod)}
    named = list(status(pod).get("resourceClaimStatuses") or ())
    for one in _missing(pod):
        if one["name"] in made:
            named.append({"name": one["name"], "resourceClaimName": made[one["name"]]})
            continue
        template = cluster.get(TEMPLATE, meta(pod)["namespace"], one["resourceClaimTemplateName"])
        if template is not None:
            plan.create(_claim(pod, one["name"], spec(template)))
    plan.set_status(pod, {**status(pod), "resourceClaimStatuses": named})
    return plan


def _claim(pod: Json, name: str, template: Json) -> Json:
    given = template.get("metadata") or {}
    prefix = f"{meta(pod)['name']}-{name}-"
    if len(prefix) > _LONGEST:
        parts = (part[: len(part) * _LONGEST // len(prefix)] for part in (meta(pod)["name"], name))
        prefix = "-".join(parts)
    owner = reference_to(pod)
    del owner["blockOwnerDeletion"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": KIND,
        "metadata": {
            "generateName": prefix,
            "namespace": meta(pod)["namespace"],
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), _FOR: name},
            "ownerReferences": [owner],
        },
        "spec": template.get("spec") or {},
    }


def reconcile(cluster: ClusterObjects, claim: Json, now: float) -> Plan:
    """Forget pods that are done; without any, take the devices back, one write at a time."""
    del now
    plan = Plan()
    reserved = status(claim).get("reservedFor") or []
    left = [one for one in reserved if not _is_done(cluster, claim, one)]
    finalizers = meta(claim).get("finalizers") or []
    ours = _FINALIZER in finalizers
    if len(left) < len(reserved):
        gone = {"allocation": None} if ours and not left else {}
        news = {"reservedFor": left or None, **gone}
        plan.change(claim, subresource="status", status=news)
    elif not left and ours and status(claim).get("allocation") and is_going(claim):
        plan.change(claim, subresource="status", status={"allocation": None})
    elif not left and ours and not status(claim).get("allocation"):
        rest = [name for name in finalizers if name != _FINALIZER]
        plan.change(claim, metadata={"finalizers": rest or None})
    elif not left:
        owner = controller_of(claim)
        pod = cluster.get("Pod", meta(claim)["namespace"], owner["name"]) if owner else None
        if owner and pod and (meta(pod)["uid"] != owner["uid"] or _has_ended(pod)):
            plan.delete(claim)
    return plan


def _is_done(cluster: ClusterObjects, claim: Json, consumer: Json) -> bool:
    """Is a consumer a pod that needs the claim no more? One that is unknown may yet be seen."""
    if consumer.get("resource") != "pods" or consumer.get("apiGroup"):
        return False
    pod = cluster.get("Pod", meta(claim)["namespace"], consumer["name"])
    if pod is None:
        return cluster.is_gone(consumer["uid"])
    return meta(pod)["uid"] != consumer["uid"] or _has_ended(pod)


def _has_ended(pod: Json) -> bool:
    """It has run to its end, or is deleted and never came to a node."""
    return is_finished(pod) or (is_going(pod) and not spec(pod).get("nodeName"))


def concerned(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """Who else has to be looked at when a pod, a template or a claim has changed."""
    changed = after or before or {}
    match changed["kind"]:
        case "Pod" if spec(changed).get("resourceClaims"):
            if after is not None and needs_claims(after):
                yield key_of(after)
            if after is None or _has_ended(after):
                yield from map(key_of, _claims_of(cluster, changed))
        case "ResourceClaimTemplate" if after is not None:
            yield from (
                key_of(pod) for pod in cluster.all("Pod", meta(after)["namespace"]) if _missing(pod)
            )
        case "ResourceClaim":
            owner = controller_of(changed)
            pod = cluster.get("Pod", meta(changed)["namespace"], owner["name"]) if owner else None
            if pod is not None and needs_claims(pod):
                yield key_of(pod)


def _claims_of(cluster: ClusterObjects, pod: Json) -> list[Json]:
    named = {one.get("resourceClaimName") for one in spec(pod).get("resourceClaims") or ()}
    made = status(pod).get("resourceClaimStatuses") or ()
    named |= {one.get("resourceClaimName") for one in made}
    found = (cluster.get(KIND, meta(pod)["namespace"], name) for name in named if name)
    return [claim for claim in found if claim is not None]
