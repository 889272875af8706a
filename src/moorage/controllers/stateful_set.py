"""StatefulSets: pods with numbers and claims of their own, one after the other or all at once.

Upstream: kubernetes@v1.37.1 pkg/controller/statefulset.
"""

import re
from collections.abc import Iterable

from moorage.controllers import revisions
from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    finds_its_own,
    is_finished,
    is_going,
    is_ready,
    labels,
    meta,
    phase,
    pod_from,
    replicas,
    scaled,
    seconds_to_available,
    spec,
    status,
)
from moorage.controllers.plan import Note, Plan

_NUMBER = re.compile(r"-(\d+)$")
_CLAIM = "PersistentVolumeClaim"


class _Numbered:
    """One look at a StatefulSet: its pods by number, and which revision they are to have."""

    def __init__(self, cluster: ClusterObjects, owner: Json, now: float) -> None:
        self.plan = Plan()
        self.cluster = cluster
        self.owner = owner
        self.start = int((spec(owner).get("ordinals") or {}).get("start", 0))
        self.numbers = range(self.start, self.start + replicas(owner))
        self.pods: dict[int, Json] = {}
        for pod in self.plan.claim(cluster, owner, "Pod"):
            found = _NUMBER.search(meta(pod)["name"])
            if found and meta(pod)["name"] == f"{meta(owner)['name']}-{found[1]}":
                self.pods[int(found[1])] = pod
        self.latest = revisions.latest_revision(self.plan, cluster, owner)
        known = {meta(one)["name"]: one for one in revisions.revisions_of(cluster, owner)}
        self.current = known.get(status(owner).get("currentRevision", ""), self.latest)
        self.in_order = spec(owner).get("podManagementPolicy") != "Parallel"
        min_ready = spec(owner).get("minReadySeconds") or 0
        waits = {
            number: seconds_to_available(pod, min_ready, now) for number, pod in self.pods.items()
        }
        self.plan.look_again(waits.values())
        self.available = {
            number
            for number, pod in self.pods.items()
            if waits[number] == 0 and phase(pod) == "Running" and not is_going(pod)
        }

    @property
    def partition(self) -> int:
        """Pods with a lower number keep the current revision."""
        rolling = (spec(self.owner).get("updateStrategy") or {}).get("rollingUpdate") or {}
        return self.start + int(rolling.get("partition") or 0)

    def is_latest(self, pod: Json) -> bool:
        """Is a pod made from the latest template?"""
        return labels(pod).get(revisions.HASH) == str(meta(self.latest)["name"])

    def delete(self, number: int) -> None:
        """Take a pod away."""
        text = f"delete Pod {{name}} in StatefulSet {meta(self.owner)['name']} successful"
        self.plan.delete(self.pods[number], Note(self.owner, "SuccessfulDelete", text))


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Make, replace and delete pods as far as their order allows, and say how far it is."""
    if is_going(owner) or not finds_its_own(owner):
        return Plan()
    look = _Numbered(cluster, owner, now)
    _report(look)
    if _fill(look) and _shrink(look):
        _update(look)
    names = {meta(look.current)["name"], meta(look.latest)["name"]}
    names |= {labels(pod).get(revisions.HASH, "") for pod in look.pods.values()}
    prefix = f"{meta(owner)['name']}-"
    revisions.clean_up(look.plan, cluster, owner, {name.removeprefix(prefix) for name in names})
    return look.plan


def _fill(look: _Numbered) -> bool:
    """Make the pods that are missing. May pods go now?"""
    for number in look.numbers:
        pod = look.pods.get(number)
        if pod is None:
            _create(look, number)
        elif is_finished(pod):
            look.delete(number)
        if look.in_order and number not in look.available:
            return False  # this one first
    return True


def _shrink(look: _Numbered) -> bool:
    """Delete the pods that are too many, the last first. May others be replaced now?"""
    condemned = sorted((n for n in look.pods if n not in look.numbers), reverse=True)
    for number in condemned:
        pod = look.pods[number]
        if look.in_order:
            broken = [n for n in condemned if n not in look.available]
            if is_going(pod) or (number not in look.available and number != min(broken)):
                return False
        look.delete(number)
        if look.in_order:
            return False
    return True


def _update(look: _Numbered) -> None:
    """Delete pods of older revisions, the last first, as many as may be missing at a time."""
    strategy = spec(look.owner).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return
    limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
    most = max(1, scaled(limit, len(look.numbers), up=True)) if limit is not None else 1
    missing = [number for number in look.numbers if number not in look.available]
    room = most - len(missing)
    for number in reversed(look.numbers):
        pod = look.pods.get(number)
        if number < look.partition or pod is None or look.is_latest(pod) or is_going(pod):
            continue
        if number in look.available and room > 0:
            look.delete(number)
            room -= 1
        elif number not in look.available and not (look.in_order or is_finished(pod)):
            look.delete(number)  # it serves nobody, so it costs nothing


def _create(look: _Numbered, number: int) -> None:
    owner = look.owner
    revision = look.current if number < look.partition else look.latest
    template = revisions.template_of(revision)
    name = f"{meta(owner)['name']}-{number}"
    pod = pod_from(template, owner, name)
    pod["metadata"]["labels"] |= {
        revisions.HASH: meta(revision)["name"],
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
    }
    pod["spec"]["hostname"] = name
    if spec(owner).get("serviceName"):
        pod["spec"]["subdomain"] = spec(owner)["serviceName"]
    claims = spec(owner).get("volumeClaimTemplates") or ()
    own = {meta(claim)["name"]: f"{meta(claim)['name']}-{name}" for claim in claims}
    for claim in claims:
        _create_claim(look, claim, own[meta(claim)["name"]])
    volumes = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
        for volume, claim in own.items()
    ]
    others = [one for one in pod["spec"].get("volumes") or () if one["name"] not in own]
    if volumes or others:
        pod["spec"]["volumes"] = [*volumes, *others]
    text = f"create Pod {{name}} in StatefulSet {meta(owner)['name']} successful"
    look.plan.create(pod, Note(owner, "SuccessfulCreate", text))


def _create_claim(look: _Numbered, claim: Json, name: str) -> None:
    namespace = meta(look.owner)["namespace"]
    if look.cluster.get(_CLAIM, namespace, name) is not None:
        return
    selected = (spec(look.owner).get("selector") or {}).get("matchLabels") or {}
    body = {
        "apiVersion": "v1",
        "kind": _CLAIM,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {**labels(claim), **selected},
            "annotations": dict(meta(claim).get("annotations") or {}),
        },
        "spec": spec(claim),
    }
    look.plan.create(body)


def _report(look: _Numbered) -> None:
    def count(pods: Iterable[Json], revision: Json) -> int:
        name = meta(revision)["name"]
        return sum(labels(pod).get(revisions.HASH) == name and not is_going(pod) for pod in pods)

    pods = look.pods.values()
    updated, current = count(pods, look.latest), count(pods, look.current)
    ready = sum(is_ready(pod) and phase(pod) == "Running" for pod in pods)
    current_name, latest = meta(look.current)["name"], meta(look.latest)["name"]
    wanted = replicas(look.owner)
    strategy = (spec(look.owner).get("updateStrategy") or {}).get("type")
    if updated == ready == len(pods) == wanted and strategy != "OnDelete":
        current_name, current = latest, updated
    new = {
        "observedGeneration": meta(look.owner).get("generation", 0),
        "replicas": len(pods),
        "readyReplicas": ready,
        "availableReplicas": len(look.available),
        "currentReplicas": current,
        "updatedReplicas": updated,
        "currentRevision": current_name,
        "updateRevision": latest,
        "collisionCount": status(look.owner).get("collisionCount", 0),
    }
    required = ["replicas", "availableReplicas", "collisionCount"]
    look.plan.set_status(look.owner, new, required=required)
