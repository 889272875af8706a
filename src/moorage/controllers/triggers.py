"""Which objects have to be looked at again when one has changed, and who looks at them.

Owns the table of controllers. A change of any object leads to keys; what is to be done is worked
out anew from everything there is.
"""

from collections.abc import Callable, Iterator, Mapping

from moorage.controllers import deployment, replica_set
from moorage.controllers.cluster import Cluster, Key, key_of
from moorage.controllers.objects import Json, controller_of, labels, meta, selector_of
from moorage.controllers.plan import Plan

Reconcile = Callable[[Cluster, Json, float], Plan]

CONTROLLERS: Mapping[str, Reconcile] = {
    "Deployment": deployment.reconcile,
    "ReplicaSet": replica_set.reconcile,
}
"""By kind: what brings an object of that kind about."""

OWNED: Mapping[str, str] = {"Deployment": "ReplicaSet", "ReplicaSet": "Pod"}
"""By kind: which objects it controls."""

FOLLOWED: Mapping[str, str] = {
    "Pod": "pods.v1.",
    "ReplicaSet": "replicasets.v1.apps",
    "Deployment": "deployments.v1.apps",
}
"""Every kind that controllers look at, and the resource that it is listed under."""


def affected(cluster: Cluster, before: Json | None, after: Json | None) -> Iterator[Key]:
    """The keys of what a change concerns; either state is None if there was or is no object."""
    for obj in (before, after):
        if obj is None:
            continue
        key = key_of(obj)
        if obj is after and key.kind in CONTROLLERS:
            yield key
        owner = controller_of(obj)
        if owner is not None:
            yield from _controllers_above(cluster, key.namespace, owner)
        elif obj is after:
            yield from _who_may_adopt(cluster, obj)


def _controllers_above(cluster: Cluster, namespace: str, owner: Json) -> Iterator[Key]:
    """A Deployment that recreates waits for the pods of its ReplicaSets, so it is told as well."""
    found = cluster.get(owner["kind"], namespace, owner["name"])
    if owner["kind"] not in CONTROLLERS or found is None or meta(found)["uid"] != owner["uid"]:
        return
    yield key_of(found)
    above = controller_of(found)
    if above is not None:
        yield from _controllers_above(cluster, namespace, above)


def _who_may_adopt(cluster: Cluster, obj: Json) -> Iterator[Key]:
    kind, namespace = obj["kind"], meta(obj).get("namespace", "")
    for owner_kind, owned in OWNED.items():
        if owned != kind:
            continue
        for owner in cluster.all(owner_kind, namespace):
            selector = selector_of(owner)
            if selector is not None and selector.matches(labels(obj)):
                yield key_of(owner)
