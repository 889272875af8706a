"""Which objects have to be looked at again when one has changed, and who looks at them.

Owns the table of controllers. A change of any object leads to keys; what is to be done is worked
out anew from everything there is.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

import msgspec

from moorage.controllers import (
    daemon_set,
    deployment,
    disruption_budget,
    forsaken_pods,
    job,
    namespaces,
    nodes,
    replica_set,
    resource_claims,
    stateful_set,
    volumes,
)
from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.machine import StateMachine
from moorage.controllers.objects import Json, controller_of, labels, meta, selector_of, spec
from moorage.controllers.plan import Plan

Reconcile = Callable[[ClusterObjects, Json, float], Plan]
Concerned = Callable[[ClusterObjects, Json | None, Json | None], Iterator[Key]]


def _reconcile_pod(cluster: ClusterObjects, pod: Json, now: float) -> Plan:
    """What others have to do about a pod, one thing at a time."""
    plan = forsaken_pods.reconcile(cluster, pod, now)
    if not plan.writes:
        plan = nodes.evict(cluster, pod, now)
    if not plan.writes:
        waits = plan.again_in
        plan = resource_claims.reconcile_pod(cluster, pod, now)
        plan.look_again([waits])
    return plan


CONTROLLERS: Mapping[str, Reconcile] = {
    "DaemonSet": daemon_set.reconcile,
    "Deployment": deployment.reconcile,
    "Job": job.reconcile,
    "Namespace": namespaces.reconcile,
    "Node": nodes.reconcile,
    "PersistentVolume": volumes.reconcile_volume,
    "PersistentVolumeClaim": volumes.reconcile_claim,
    "Pod": _reconcile_pod,
    "PodDisruptionBudget": disruption_budget.reconcile,
    "ReplicaSet": replica_set.reconcile,
    "ReplicationController": replica_set.reconcile,
    "ResourceClaim": resource_claims.reconcile,
    "StatefulSet": stateful_set.reconcile,
}
"""By kind: what brings an object of that kind about."""

OWNED: Mapping[str, tuple[str, ...]] = {
    "DaemonSet": ("Pod",),
    "Deployment": ("ReplicaSet",),
    "Job": ("Pod",),
    "ReplicaSet": ("Pod",),
    "ReplicationController": ("Pod",),
    "StatefulSet": ("Pod",),
}
"""By kind: what it adopts if its selector says so."""

FOLLOWED: Mapping[str, str] = {
    "ConfigMap": "configmaps.v1.",
    "ControllerRevision": "controllerrevisions.v1.apps",
    "DaemonSet": "daemonsets.v1.apps",
    "Deployment": "deployments.v1.apps",
    "Job": "jobs.v1.batch",
    "Namespace": "namespaces.v1.",
    "Node": "nodes.v1.",
    "PersistentVolume": "persistentvolumes.v1.",
    "PersistentVolumeClaim": "persistentvolumeclaims.v1.",
    "Pod": "pods.v1.",
    "PodDisruptionBudget": "poddisruptionbudgets.v1.policy",
    "ReplicaSet": "replicasets.v1.apps",
    "ReplicationController": "replicationcontrollers.v1.",
    "ResourceClaim": "resourceclaims.v1.resource.k8s.io",
    "ResourceClaimTemplate": "resourceclaimtemplates.v1.resource.k8s.io",
    "ServiceAccount": "serviceaccounts.v1.",
    "StatefulSet": "statefulsets.v1.apps",
    "StorageClass": "storageclasses.v1.storage.k8s.io",
}
"""Every kind that controllers look at, and the resource that it is listed under."""


def api_version(kind: str) -> str:
    """The `apiVersion` of a kind that controllers look at."""
    _, version, group = FOLLOWED[kind].split(".", 2)
    return f"{group}/{version}" if group else version


def affected(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """The keys of what a change concerns; either state is None if there was or is no object."""
    for obj in (before, after):
        if obj is None:
            continue
        key = key_of(obj)
        if obj is after and key.kind in CONTROLLERS and key.kind != "Pod":
            yield key
        owner = controller_of(obj)
        if owner is not None:
            yield from _controllers_above(cluster, key.namespace, owner)
        elif obj is after:
            yield from _who_may_adopt(cluster, obj)
    for concerned in _CONCERNED.get((after or before or {})["kind"], ()):
        yield from concerned(cluster, before, after)


def _budgets(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """Budgets count pods, and may be shares of what workloads ask for."""
    yield from map(
        key_of, cluster.all("PodDisruptionBudget", meta(after or before or {})["namespace"])
    )


def _pod_itself(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """Only pods of Jobs, and those on nodes that may drive them out, are looked at themselves."""
    if after is not None:
        node = cluster.get("Node", "", spec(after).get("nodeName", ""))
        if job.is_tracked(after) or nodes.drives_out(node):
            yield key_of(after)


def _pods_of_job(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    if after is None and before is not None:
        yield from map(key_of, cluster.controlled("Pod", before))


def _namespace(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    """What every namespace has is made anew."""
    if after is None and before is not None:
        inside = cluster.get("Namespace", "", meta(before)["namespace"])
        if inside is not None:
            yield key_of(inside)


def _of_node(cluster: ClusterObjects, before: Json | None, after: Json | None) -> Iterator[Key]:
    if after is None or nodes.drives_out(before) or nodes.drives_out(after):
        yield from map(key_of, cluster.on_node(meta(after or before or {})["name"]))
    if before is None or after is None or _what_daemons_see(before) != _what_daemons_see(after):
        yield from map(key_of, cluster.all("DaemonSet"))


_CONCERNED: Mapping[str, tuple[Concerned, ...]] = {
    "ConfigMap": (_namespace,),
    "Deployment": (_budgets,),
    "Job": (_pods_of_job,),
    "Node": (_of_node,),
    "PersistentVolume": (volumes.concerned,),
    "PersistentVolumeClaim": (volumes.concerned,),
    "Pod": (_pod_itself, _budgets, resource_claims.concerned),
    "ReplicaSet": (_budgets,),
    "ReplicationController": (_budgets,),
    "ResourceClaim": (resource_claims.concerned,),
    "ResourceClaimTemplate": (resource_claims.concerned,),
    "ServiceAccount": (_namespace,),
    "StatefulSet": (_budgets,),
    "StorageClass": (volumes.concerned,),
}
"""By kind of what has changed: who else is concerned beside itself and its owners."""


def _what_daemons_see(node: Json) -> tuple[object, ...]:
    return labels(node), spec(node).get("taints")


def _controllers_above(cluster: ClusterObjects, namespace: str, owner: Json) -> Iterator[Key]:
    """A Deployment that recreates waits for the pods of its ReplicaSets, so it is told as well."""
    found = cluster.get(owner["kind"], namespace, owner["name"])
    if owner["kind"] not in CONTROLLERS or found is None or meta(found)["uid"] != owner["uid"]:
        return
    yield key_of(found)
    above = controller_of(found)
    if above is not None:
        yield from _controllers_above(cluster, namespace, above)


def _who_may_adopt(cluster: ClusterObjects, obj: Json) -> Iterator[Key]:
    kind, namespace = obj["kind"], meta(obj).get("namespace", "")
    for owner_kind, owned in OWNED.items():
        if kind not in owned:
            continue
        for owner in cluster.all(owner_kind, namespace):
            selector = selector_of(owner)
            if selector is not None and selector.matches(labels(obj)):
                yield key_of(owner)


def reconcile(cluster: ClusterObjects, obj: Json, now: float) -> Plan:
    """What is to be written for an object now, and when to look at it again."""
    return CONTROLLERS[obj["kind"]](cluster, obj, now)


_OF_PODS = ("affinity", "nodeName", "resourceClaims", "tolerations")


def _of_pods(given: Json) -> Json:
    kept = {name: given[name] for name in _OF_PODS if name in given}
    if "tolerations" in kept:
        kept["tolerations"] = _shared(msgspec.json.encode(kept["tolerations"]))
    return kept


@lru_cache(maxsize=128)
def _shared(encoded: bytes) -> object:
    """One value for all that are equal: most pods tolerate the same."""
    return msgspec.json.decode(encoded)


WORKLOADS = StateMachine(
    FOLLOWED,
    affected,
    reconcile,
    _of_pods,
    {FOLLOWED["ConfigMap"]: f"metadata.name={namespaces.AUTHORITY}"},
)
"""All controllers together."""
