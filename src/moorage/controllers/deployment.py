"""Deployments: a ReplicaSet per pod template, and the way from one to the next.

Owns which ReplicaSet is the new one, its revision, and how many replicas each has at a time. Makes
no pods: that is `replica_set`. Undoing a rollout is a client's change of the template, which finds
its old ReplicaSet again.
Upstream: kubernetes@v1.37.1 pkg/controller/deployment.
"""

from typing import Any, NamedTuple

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    condition,
    finds_its_own,
    hash_of,
    is_active,
    is_finished,
    is_going,
    is_ready,
    meta,
    reference_to,
    replicas,
    rfc3339,
    scaled,
    seconds,
    spec,
    status,
    with_condition,
    without_condition,
)
from moorage.controllers.plan import Note, Plan

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
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
_NO_LIMIT = 2**31 - 1


class _Bounds(NamedTuple):
    """How many replicas there may be at most, and how many must be available at least."""

    most: int
    least: int


class _Rollout:
    """One look at a Deployment: its ReplicaSets, and how many replicas each is to have.

    `size` holds what is planned already, so that later steps build on earlier ones.
    """

    def __init__(self, cluster: ClusterObjects, owner: Json, now: float) -> None:
        self.plan = Plan()
        self.cluster = cluster
        self.owner = owner
        self.now = now
        found = sorted(self.plan.claim(cluster, owner, "ReplicaSet"), key=age)
        template = _template(owner)
        self.new = next((one for one in found if _template(one) == template), None)
        self.old = [one for one in found if one is not self.new]
        self.all = [*self.old, *([self.new] if self.new else [])]
        self.size = {meta(one)["uid"]: replicas(one) for one in self.all}
        self.bounds = _bounds(owner)
        self.created = ""
        """The name of the new ReplicaSet, if it is made just now."""
        self.noted: dict[str, Json] = {}
        """Annotations that ReplicaSets are to get, by uid."""

    @property
    def total(self) -> int:
        """How many replicas all ReplicaSets are to have."""
        return sum(self.size.values())

    def size_of(self, one: Json) -> int:
        """How many replicas a ReplicaSet is to have."""
        return self.size[meta(one)["uid"]]

    def resize(self, one: Json, wanted: int) -> bool:
        """Give a ReplicaSet so many replicas; False if it has."""
        changed = self.size_of(one) != wanted
        self.size[meta(one)["uid"]] = wanted
        return changed

    @property
    def held(self) -> int:
        """How many replicas there are or will be: pods that are to go count until they do.

        kube-controller-manager counts only what is asked for, which can be fewer for a moment.
        """
        return sum(
            max(self.size_of(one), sum(map(is_active, self.cluster.controlled("Pod", one))))
            for one in self.all
        )

    def available(self, one: Json) -> int:
        """How many replicas of a ReplicaSet serve: what it says, without those that went since."""
        ready = sum(is_active(pod) and is_ready(pod) for pod in self.cluster.controlled("Pod", one))
        return min(int(status(one).get("availableReplicas", 0)), ready)

    @property
    def active(self) -> list[Json]:
        """The ReplicaSets that are to have replicas."""
        return [one for one in self.all if self.size_of(one)]


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Take one step of a rollout, or scale, and say in the status how far it is."""
    if not finds_its_own(owner):
        return Plan()
    rollout = _Rollout(cluster, owner, now)
    if is_going(owner):
        _report(rollout, progress=False)
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
    if paused or (not scaling and _is_complete(owner, status(owner))):
        _clean_up(rollout)
    _report(rollout, progress=not (paused or scaling))
    return rollout.plan


def _template(obj: Json) -> Json:
    """A pod template without the label that tells ReplicaSets apart."""
    template: Json = dict(spec(obj).get("template") or {})
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    own = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, "labels": own}}


def _bounds(owner: Json) -> _Bounds:
    wanted = replicas(owner)
    strategy = spec(owner).get("strategy") or {}
    if strategy.get("type") == "Recreate" or not wanted:
        return _Bounds(wanted, wanted)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), wanted, up=False)
    if not surge and not unavailable:
        unavailable = 1  # both rounded to nothing: a rollout could not begin
    return _Bounds(wanted + surge, wanted - min(unavailable, wanted))


# ---- the new ReplicaSet ----


def _create_new(rollout: _Rollout, size: int) -> None:
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
    body = {
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
            "minReadySeconds": spec(owner).get("minReadySeconds", 0),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH: unique},
            },
            "template": {**template, "metadata": {**given, "labels": own}},
        },
    }
    note = _scaling_note(owner, name, 0, size) if size else None
    rollout.plan.create(body, note)
    rollout.created = name


def _annotate_new(rollout: _Rollout, new: Json) -> None:
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


def _size_annotations(rollout: _Rollout) -> dict[str, str]:
    return {_DESIRED: str(replicas(rollout.owner)), _MAX: str(rollout.bounds.most)}


# ---- scaling ----


def _is_scaling(rollout: _Rollout) -> bool:
    """Was the Deployment asked for another number since its ReplicaSets were given theirs?"""
    wanted = str(replicas(rollout.owner))
    return any(annotations(one).get(_DESIRED, wanted) != wanted for one in rollout.active)


def _scale(rollout: _Rollout) -> None:
    """Reach the number that is asked for without speeding up a rollout or turning it round."""
    wanted, active = replicas(rollout.owner), rollout.active
    if len(active) <= 1:
        newest = sorted(rollout.old, key=age)[-1:]
        for one in active or ([rollout.new] if rollout.new else newest):
            rollout.resize(one, wanted)
        _note_sizes(rollout, rollout.all)
    elif rollout.new is not None and _is_saturated(rollout, rollout.new):
        for one in rollout.old:
            rollout.resize(one, 0)
        _note_sizes(rollout, rollout.all)
    elif (spec(rollout.owner).get("strategy") or {}).get("type") != "Recreate":
        _scale_in_proportion(rollout, active)
        _note_sizes(rollout, active)


def _is_saturated(rollout: _Rollout, new: Json) -> bool:
    wanted = replicas(rollout.owner)
    return (
        rollout.size_of(new) == wanted
        and annotations(new).get(_DESIRED) == str(wanted)
        and status(new).get("availableReplicas", 0) == wanted
    )


def _scale_in_proportion(rollout: _Rollout, active: list[Json]) -> None:
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


def _note_sizes(rollout: _Rollout, found: list[Json]) -> None:
    for one in found:
        has = rollout.noted.get(meta(one)["uid"], annotations(one))
        wanted = {**has, **_size_annotations(rollout)}
        if wanted != has:
            rollout.noted[meta(one)["uid"]] = wanted


def _write_sizes(rollout: _Rollout) -> None:
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


def _roll(rollout: _Rollout) -> None:
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


def _recreate(rollout: _Rollout) -> None:
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


def _clean_up(rollout: _Rollout) -> None:
    """Keep only as many old ReplicaSets as the history may hold."""
    limit = spec(rollout.owner).get("revisionHistoryLimit")
    if limit is None or limit == _NO_LIMIT:
        return
    kept = [one for one in rollout.old if not is_going(one)]
    kept.sort(key=lambda one: (_revision(one), *age(one)))
    for one in kept[: max(0, len(kept) - limit)]:
        if _is_observed(one) and not (status(one).get("replicas") or replicas(one)):
            rollout.plan.delete(one)


# ---- status ----


def _is_complete(owner: Json, reported: Json) -> bool:
    wanted = replicas(owner)
    return (
        all(
            reported.get(field, 0) == wanted
            for field in ("updatedReplicas", "replicas", "availableReplicas")
        )
        and reported.get("observedGeneration", 0) >= meta(owner)["generation"]
    )


def _report(rollout: _Rollout, *, progress: bool) -> None:
    owner, old = rollout.owner, status(rollout.owner)

    def count(field: str) -> int:
        return sum(int(status(one).get(field, 0)) for one in rollout.all)

    available = count("availableReplicas")
    new: Json = {
        "observedGeneration": meta(owner).get("generation", 0),
        "replicas": count("replicas"),
        "updatedReplicas": status(rollout.new).get("replicas", 0) if rollout.new else 0,
        "readyReplicas": count("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, rollout.total - available),
        "terminatingReplicas": count("terminatingReplicas"),
        "collisionCount": old.get("collisionCount"),
    }
    conditions = _with_failure(rollout, old.get("conditions") or [])
    enough = available >= rollout.bounds.least
    new["conditions"] = _with_progress(
        rollout,
        _with(
            conditions,
            "Available",
            "True" if enough else "False",
            f"MinimumReplicas{'Available' if enough else 'Unavailable'}",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            rollout.now,
        ),
        new,
        estimate=progress,
    )
    revision = {}
    if rollout.new is not None:
        noted = rollout.noted.get(meta(rollout.new)["uid"], annotations(rollout.new))
        if noted.get(REVISION, "") != annotations(owner).get(REVISION, ""):
            revision = {REVISION: noted.get(REVISION, "")}
    rollout.plan.set_status(owner, new, annotations=revision)


def _with(
    conditions: list[Json],
    kind: str,
    state: str,
    reason: str,
    message: str,
    now: float,
    *,
    again: bool = False,
) -> list[Json]:
    """The conditions with one set; if it says what it said, its times stay, except `again`."""
    old = next((one for one in conditions if one["type"] == kind), None)
    if old is not None and (old["status"], old["reason"]) == (state, reason) and not again:
        return conditions
    new = {"type": kind, "status": state, "reason": reason, "message": message}
    return with_condition(conditions, {**new, "lastUpdateTime": rfc3339(now)}, now)


def _with_failure(rollout: _Rollout, conditions: list[Json]) -> list[Json]:
    """What keeps a ReplicaSet from having its pods, the new one's first."""
    failures = (condition(one, "ReplicaFailure") for one in reversed(rollout.all))
    failure = next(filter(None, failures), None)
    rest = without_condition(conditions, "ReplicaFailure")
    if failure is None:
        return rest
    return [*rest, {**failure, "lastUpdateTime": failure["lastTransitionTime"]}]


def _with_progress(
    rollout: _Rollout, conditions: list[Json], new: Json, *, estimate: bool
) -> list[Json]:
    """The conditions with `Progressing`, for those who have set a deadline."""
    deadline = spec(rollout.owner).get("progressDeadlineSeconds")
    if deadline is None or deadline == _NO_LIMIT:
        return without_condition(conditions, "Progressing")
    says = _begun(rollout)
    if says is None and estimate:
        says = _progress(rollout, new, deadline)
    if says is None:
        return conditions
    again = says[1] == "ReplicaSetUpdated"
    return _with(conditions, "Progressing", *says, rollout.now, again=again)


def _begun(rollout: _Rollout) -> tuple[str, str, str] | None:
    """Status, reason and message of `Progressing` where a rollout begins, pauses or goes on."""
    current = condition(rollout.owner, "Progressing")
    reason = current["reason"] if current else ""
    if spec(rollout.owner).get("paused") and reason != "ProgressDeadlineExceeded":
        return "Unknown", "DeploymentPaused", "Deployment is paused"
    if reason == "DeploymentPaused":
        return "Unknown", "DeploymentResumed", "Deployment is resumed"
    if rollout.created:
        return "True", "NewReplicaSetCreated", f'Created new replica set "{rollout.created}"'
    if current is None and rollout.new is not None:
        name = meta(rollout.new)["name"]
        return "True", "FoundNewReplicaSet", f'Found new replica set "{name}"'
    return None


def _progress(rollout: _Rollout, new: Json, deadline: int) -> tuple[str, str, str] | None:
    """The same for a rollout that is complete, gets on, or has been stuck for too long."""
    owner, current = rollout.owner, condition(rollout.owner, "Progressing")
    rolled_out = current is not None and current["reason"] == "NewReplicaSetAvailable"
    if rolled_out and new["replicas"] == new["updatedReplicas"]:
        return None
    what = f'Deployment "{meta(owner)["name"]}"'
    if rollout.new is not None:
        what = f'ReplicaSet "{meta(rollout.new)["name"]}"'
    if _is_complete(owner, new):
        return "True", "NewReplicaSetAvailable", f"{what} has successfully progressed."
    if _has_progressed(status(owner), new):
        return "True", "ReplicaSetUpdated", f"{what} is progressing."
    if current is None or rolled_out:
        return None
    left = seconds(current["lastUpdateTime"]) + deadline - rollout.now
    if current["reason"] == "ProgressDeadlineExceeded" or left < 0:
        return "False", "ProgressDeadlineExceeded", f"{what} has timed out progressing."
    rollout.plan.look_again([left + 1])
    return None


def _has_progressed(old: Json, new: Json) -> bool:
    def outdated(one: Json) -> int:
        return int(one.get("replicas", 0)) - int(one.get("updatedReplicas", 0))

    counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated(new) < outdated(old) or any(
        new.get(field, 0) > old.get(field, 0) for field in counts
    )
