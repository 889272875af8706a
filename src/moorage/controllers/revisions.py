"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, numbered.

`kubectl rollout history` and `undo` read them. Upstream: kubernetes@v1.37.1 pkg/controller/history.
"""

from collections.abc import Collection

import msgspec

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import Json, hash_of, meta, reference_to, spec, status
from moorage.controllers.plan import Plan

HASH = "controller-revision-hash"
_OF_STATEFUL_SETS = "controller.kubernetes.io/hash"
KIND = "ControllerRevision"


def revisions_of(cluster: ClusterObjects, owner: Json) -> list[Json]:
    """The revisions of a workload, the oldest first."""
    return sorted(cluster.controlled(KIND, owner), key=_number)


def latest_revision(plan: Plan, cluster: ClusterObjects, owner: Json) -> Json:
    """The revision of the template as it is now: the newest, made or numbered anew if need be."""
    found = revisions_of(cluster, owner)
    template = {**(spec(owner).get("template") or {}), "$patch": "replace"}
    # Clients compare it byte by byte with a patch of their own, whose keys are in order.
    data = msgspec.json.decode(
        msgspec.json.encode({"spec": {"template": template}}, order="sorted")
    )
    number = _number(found[-1]) if found else 0
    for one in reversed(found):
        if one["data"] == data:
            if one is not found[-1]:
                plan.change(one, revision=number + 1)
            return one
    salt = int(status(owner).get("collisionCount") or 0)
    namespace = meta(owner)["namespace"]
    while cluster.get(KIND, namespace, f"{meta(owner)['name']}-{hash_of(template, salt)}"):
        salt += 1
    unique = hash_of(template, salt)
    labels = (template.get("metadata") or {}).get("labels") or {}
    key = _OF_STATEFUL_SETS if owner["kind"] == "StatefulSet" else HASH
    made: Json = {
        "apiVersion": "apps/v1",
        "kind": KIND,
        "metadata": {
            "name": f"{meta(owner)['name']}-{unique}",
            "namespace": namespace,
            "labels": {**labels, key: unique},
            "annotations": dict(meta(owner).get("annotations") or {}),
            "ownerReferences": [reference_to(owner)],
        },
        "data": data,
        "revision": number + 1,
    }
    made["metadata"]["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration", None)
    plan.create(made)
    return made


def clean_up(plan: Plan, cluster: ClusterObjects, owner: Json, live: Collection[str]) -> None:
    """Keep only as many old revisions as the history may hold; those whose hash is live stay."""
    limit = spec(owner).get("revisionHistoryLimit")
    old = [one for one in revisions_of(cluster, owner) if unique_part(one) not in live]
    if limit is not None:
        for one in old[: max(0, len(old) - limit)]:
            plan.delete(one)


def template_of(revision: Json) -> Json:
    """The pod template that a revision keeps."""
    kept = revision["data"]["spec"]["template"]
    return {name: value for name, value in kept.items() if name != "$patch"}


def unique_part(revision: Json) -> str:
    """The hash that tells a revision from others of its workload."""
    labels = meta(revision)["labels"]
    return str(labels.get(_OF_STATEFUL_SETS) or labels[HASH])


def _number(revision: Json) -> int:
    return int(revision.get("revision", 0))
