"""Which objects have to be looked at again when one has changed, and who looks at them.

Owns the table of controllers. A change of any object leads to keys; what is to be done is worked
out anew from everything there is.
"""

from collections.abc import Callable, Iterator, Mapping

from moorage.controllers import (
    daemon_set,
    deployment,
    disruption_budget,
    forsaken_pods,
    job,
    replica_set,
    stateful_set,
)
from moorage.controllers.cluster import ClusterObjects, Key, key_of
from moorage.controllers.machine import StateMachine
from moorage.controllers.objects import Json, controller_of, labels, meta, selector_of, spec
from moorage.controllers.plan import Plan

Reconcile = Callable[[ClusterObjects, Json, float], Plan]

CONTROLLERS: Mapping[str, Reconcile] = {
    "DaemonSet": daemon_set.reconcile,
    "Deployment": deployment.reconcile,
    "Job": job.reconcile,
    "Pod": forsaken_pods.reconcile,
    "PodDisruptionBudget": disruption_budget.reconcile,
    "ReplicaSet": replica_set.reconcile,
    "ReplicationController": replica_set.reconcile,
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
    "ControllerRevision": "controllerrevisions.v1.apps",
    "DaemonSet": "daemonsets.v1.apps",
    "Deployment": "deployments.v1.apps",
    "Job": "jobs.v1.batch",
    "Node": "nodes.v1.",
    "PersistentVolumeClaim": "persistentvolumeclaims.v1.",
    "Pod": "pods.v1.",
    "PodDisruptionBudget": "poddisruptionbudgets.v1.policy",
    "ReplicaSet": "replicasets.v1.apps",
    "ReplicationController": "replicationcontrollers.v1.",
    "StatefulSet": "statefulsets.v1.apps",
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
    changed = after or before
    if changed is None:
        return
    match changed["kind"]:
        case "Node":
            yield from _of_node(cluster, changed, before, after)
        case "Job" if after is None:
            yield from map(key_of, cluster.controlled("Pod", changed))
        case "Pod":
            if after is not None and job.is_tracked(after):
                yield key_of(after)
            yield from map(key_of, cluster.all("PodDisruptionBudget", meta(changed)["namespace"]))
        case "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet":
            # Budgets may be shares of what workloads ask for.
            yield from map(key_of, cluster.all("PodDisruptionBudget", meta(changed)["namespace"]))


def _of_node(
    cluster: ClusterObjects, node: Json, before: Json | None, after: Json | None
) -> Iterator[Key]:
    if after is None:
        yield from map(key_of, cluster.on_node(meta(node)["name"]))
    if before is None or after is None or _what_daemons_see(before) != _what_daemons_see(after):
        yield from map(key_of, cluster.all("DaemonSet"))


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


_OF_PODS = ("affinity", "nodeName")


def _of_pods(given: Json) -> Json:
    return {name: given[name] for name in _OF_PODS if name in given}


WORKLOADS = StateMachine(FOLLOWED, affected, reconcile, _of_pods)
"""All controllers together."""
