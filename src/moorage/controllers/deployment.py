"""Deployments: a ReplicaSet per pod template, and the way from one to the next.

Owns the next step: which ReplicaSet is made, and how many replicas each gets. Makes no pods: that
is `replica_set`. Undoing a rollout is a client's change of the template, which finds its old
ReplicaSet again.
Upstream: kubernetes@v1.37.1 pkg/controller/deployment.
"""

from typing import Any

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    finds_its_own,
    hash_of,
    is_finished,
    is_going,
    meta,
    reference_to,
    replicas,
    spec,
    status,
)
from moorage.controllers.plan import Note, Plan
from moorage.controllers.rollout import HASH, NO_LIMIT, REVISION, Rollout, is_complete, report

_HISTORY = "deployment.kubernetes.io/revision-history"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_OWN = (
    REVISION,
    _HISTORY,
    _DESIRED,
    _MAX,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
)
_LONGEST_HISTORY = 2000
_LONGEST_NAME = 253


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Take one step of a rollout, or scale, and say in the status how far it is."""
    if not finds_its_own(owner):
        return Plan()
    rollout = Rollout(cluster, owner, now)
    if is_going(owner):
        report(rollout, progress=False)
        return rollout.plan
    paused, scaling = bool(spec(owner).get("paused")), _is_scaling(rollout)
    if rollout.new is not None:
        _annotate_new(rollout, rollout.new)
    if paused or scaling:
        _scale(rollout)
    elif (spec(owner).get("strategy") or {}).get("type") == "Recreate":
        _recreate(rollout)
    else:
        _roll(rollout)
    _write_sizes(rollout)
    if paused or (not scaling and is_complete(owner, status(owner))):
        _clean_up(rollout)
    report(rollout, progress=not (paused or scaling))
    return rollout.plan


# ---- the new ReplicaSet ----


def _create_new(rollout: Rollout, size: int) -> None:
    owner = rollout.owner
    template = spec(owner).get("template") or {}
    given = template.get("metadata") or {}
    namespace = meta(owner)["namespace"]
    salt = int(status(owner).get("collisionCount") or 0)
    while True:
        unique = hash_of(template, salt)
        name = f"{meta(owner)['name'][: _LONGEST_NAME - 1 - len(unique)]}-{unique}"
        if rollout.cluster.get("ReplicaSet", namespace, name) is None:
            break
        salt += 1  # another's name: two templates have one hash
    selector = spec(owner)["selector"]
    own = {**(given.get("labels") or {}), HASH: unique}
    body: Json = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": own,
            "annotations": {
                **_inherited(owner),
                REVISION: str(_latest(rollout.old) + 1),
                **_size_annotations(rollout),
            },
            "ownerReferences": [reference_to(owner)],
        },
        "spec": {
            "replicas": size,
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH: unique},
            },
            "template": {**template, "metadata": {**given, "labels": own}},
        },
    }
    if spec(owner).get("minReadySeconds"):
        body["spec"]["minReadySeconds"] = spec(owner)["minReadySeconds"]
    note = _scaling_note(owner, name, 0, size) if size else None
    rollout.plan.create(body, note)
    rollout.created = name


def _annotate_new(rollout: Rollout, new: Json) -> None:
    """The new ReplicaSet has the latest revision; if it was an old one, it remembers that."""
    has, latest = annotations(new), _latest(rollout.old) + 1
    wanted = {**has, **_inherited(rollout.owner)}
    if _revision(new) < latest:
        wanted[REVISION] = str(latest)
        if has.get(REVISION):
            history = [*filter(None, has.get(_HISTORY, "").split(",")), has[REVISION]]
            while len(",".join(history)) > _LONGEST_HISTORY:
                history.pop(0)
            wanted[_HISTORY] = ",".join(history)
    if wanted != has:
        rollout.noted[meta(new)["uid"]] = wanted


def _inherited(owner: Json) -> dict[str, str]:
    return {name: value for name, value in annotations(owner).items() if name not in _OWN}


def _revision(one: Json) -> int:
    text = annotations(one).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _latest(found: list[Json]) -> int:
    return max(map(_revision, found), default=0)


def _size_annotations(rollout: Rollout) -> dict[str, str]:
    return {_DESIRED: str(replicas(rollout.owner)), _MAX: str(rollout.bounds.most)}


# ---- scaling ----


def _is_scaling(rollout: Rollout) -> bool:
    """Was the Deployment asked for another number since its ReplicaSets were given theirs?"""
    wanted = str(replicas(rollout.owner))
    return any(annotations(one).get(_DESIRED, wanted) != wanted for one in rollout.active)


def _scale(rollout: Rollout) -> None:
    """Reach the number that is asked for without speeding up a rollout or turning it round."""
    wanted, active = replicas(rollout.owner), rollout.active
    if len(active) <= 1:
        newest = sorted(rollout.old, key=age)[-1:]
        only = active or ([rollout.new] if rollout.new else newest)
        for one in only:
            rollout.resize(one, wanted)
        _note_sizes(rollout, only)
    elif rollout.new is not None and _is_saturated(rollout, rollout.new):
        for one in rollout.old:
            rollout.resize(one, 0)
    elif (spec(rollout.owner).get("strategy") or {}).get("type") != "Recreate":
        _scale_in_proportion(rollout, active)
        _note_sizes(rollout, active)


def _is_saturated(rollout: Rollout, new: Json) -> bool:
    wanted = replicas(rollout.owner)
    return (
        rollout.size_of(new) == wanted
        and annotations(new).get(_DESIRED) == str(wanted)
        and status(new).get("availableReplicas", 0) == wanted
    )


def _scale_in_proportion(rollout: Rollout, active: list[Json]) -> None:
    """Each ReplicaSet gets its share of what is added or removed; the largest gets the rest."""
    most = rollout.bounds.most if replicas(rollout.owner) else 0
    change = left = most - rollout.total
    if not change:
        return
    newer_first = sorted(active, key=age, reverse=change > 0)
    by_size = sorted(newer_first, key=rollout.size_of, reverse=True)
    for one in by_size:
        size = rollout.size_of(one)
        before = int(annotations(one).get(_MAX) or 0) or status(rollout.owner).get("replicas", 0)
        share = 0
        if not most:
            share = -size
        elif before:
            share = (2 * size * most + before) // (2 * before) - size
        share = min(share, left) if change > 0 else max(share, left)
        rollout.resize(one, size + share)
        left -= share
    largest = by_size[0]
    rollout.resize(largest, max(0, rollout.size_of(largest) + left))


def _note_sizes(rollout: Rollout, found: list[Json]) -> None:
    for one in found:
        has = rollout.noted.get(meta(one)["uid"], annotations(one))
        wanted = {**has, **_size_annotations(rollout)}
        if wanted != has:
            rollout.noted[meta(one)["uid"]] = wanted


def _write_sizes(rollout: Rollout) -> None:
    """One write for each ReplicaSet that changes; fewer replicas come before more."""
    for one in sorted(rollout.all, key=lambda one: rollout.size_of(one) - replicas(one)):
        size, noted = rollout.size_of(one), rollout.noted.get(meta(one)["uid"])
        changes: dict[str, Any] = {}
        note = None
        if size != replicas(one):
            changes["spec"] = {"replicas": size}
            noted = {**(noted or annotations(one)), **_size_annotations(rollout)}
            note = _scaling_note(rollout.owner, meta(one)["name"], replicas(one), size)
        if one is rollout.new:
            ready = spec(rollout.owner).get("minReadySeconds") or 0
            if (spec(one).get("minReadySeconds") or 0) != ready:
                changes["spec"] = {**changes.get("spec", {}), "minReadySeconds": ready}
        if noted:
            changes["metadata"] = {"annotations": noted}
        if changes:
            rollout.plan.change(one, note, **changes)


def _scaling_note(owner: Json, name: str, before: int, after: int) -> Note:
    way = "up" if after > before else "down"
    text = f"Scaled {way} replica set {name} from {before} to {after}"
    return Note(owner, "ScalingReplicaSet", text)


# ---- strategies ----


def _roll(rollout: Rollout) -> None:
    """Add new replicas as far as the surge allows; else take old ones away, if enough are there."""
    wanted, bounds = replicas(rollout.owner), rollout.bounds
    room = max(0, bounds.most - rollout.held)
    if not all(map(_is_observed, rollout.old)):
        room = 0  # pods of an old ReplicaSet may still be on their way
    if rollout.new is None:
        _create_new(rollout, min(room, wanted))
        return
    size = rollout.size_of(rollout.new)
    if size > wanted:
        target = wanted
    else:
        target = size + min(room, wanted - size)
    if rollout.resize(rollout.new, target):
        return
    available = {meta(one)["uid"]: rollout.available(one) for one in rollout.all}
    coming = max(0, target - available[meta(rollout.new)["uid"]])
    spare = rollout.total - bounds.least - coming
    for one in rollout.old:
        # Replicas that are not available can go without making matters worse.
        idle = rollout.size_of(one) - available[meta(one)["uid"]]
        if spare > 0 and idle > 0:
            rollout.resize(one, rollout.size_of(one) - min(idle, spare))
            spare -= min(idle, spare)
    # Of pods that are to go, none counts.
    there = sum(min(available[meta(one)["uid"]], rollout.size_of(one)) for one in rollout.all)
    spare = min(spare, there - bounds.least)
    for one in rollout.old:
        gone = min(rollout.size_of(one), max(0, spare))
        rollout.resize(one, rollout.size_of(one) - gone)
        spare -= gone


def _is_observed(one: Json) -> bool:
    """Has the last change of what is asked for been seen?"""
    return int(status(one).get("observedGeneration", 0)) >= int(meta(one).get("generation", 0))


def _recreate(rollout: Rollout) -> None:
    """Old pods go first; new ones come when none of them is left."""
    for one in rollout.old:
        rollout.resize(one, 0)
    if any(
        not _is_observed(one)
        or status(one).get("replicas")
        or any(not is_finished(pod) for pod in rollout.cluster.controlled("Pod", one))
        for one in rollout.old
    ):
        return
    if rollout.new is None:
        _create_new(rollout, replicas(rollout.owner))
    else:
        rollout.resize(rollout.new, replicas(rollout.owner))


def _clean_up(rollout: Rollout) -> None:
    """Keep only as many old ReplicaSets as the history may hold."""
    limit = spec(rollout.owner).get("revisionHistoryLimit")
    if limit is None or limit == NO_LIMIT:
        return
    kept = [one for one in rollout.old if not is_going(one)]
    kept.sort(key=lambda one: (_revision(one), *age(one)))
    for one in kept[: max(0, len(kept) - limit)]:
        if _is_observed(one) and not (status(one).get("replicas") or replicas(one)):
            rollout.plan.delete(one)
