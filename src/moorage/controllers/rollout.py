"""One look at a Deployment: its ReplicaSets, what they are to become, and how far the rollout is.

Owns the limits of a rollout and the status with its conditions; which step comes next is decided in
`deployment`.
Upstream: kubernetes@v1.37.1 pkg/controller/deployment.
"""

from typing import NamedTuple

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    condition,
    is_active,
    is_ready,
    meta,
    replicas,
    rfc3339,
    scaled,
    seconds,
    spec,
    status,
    with_condition,
    without_condition,
)
from moorage.controllers.plan import Plan

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
NO_LIMIT = 2**31 - 1
"""What clients write who want none."""


class Bounds(NamedTuple):
    """How many replicas there may be at most, and how many must be available at least."""

    most: int
    least: int


class Rollout:
    """The ReplicaSets of a Deployment, and how many replicas each is to have.

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


def _template(obj: Json) -> Json:
    """A pod template without the label that tells ReplicaSets apart."""
    template: Json = dict(spec(obj).get("template") or {})
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    own = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, "labels": own}}


def _bounds(owner: Json) -> Bounds:
    wanted = replicas(owner)
    strategy = spec(owner).get("strategy") or {}
    if strategy.get("type") == "Recreate" or not wanted:
        return Bounds(wanted, wanted)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), wanted, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), wanted, up=False)
    if not surge and not unavailable:
        unavailable = 1  # both rounded to nothing: a rollout could not begin
    return Bounds(wanted + surge, wanted - min(unavailable, wanted))


# ---- status ----


def is_complete(owner: Json, reported: Json) -> bool:
    """Does a status say that all replicas are of the new template, available and alone?"""
    wanted = replicas(owner)
    return (
        all(
            reported.get(field, 0) == wanted
            for field in ("updatedReplicas", "replicas", "availableReplicas")
        )
        and reported.get("observedGeneration", 0) >= meta(owner)["generation"]
    )


def report(rollout: Rollout, *, progress: bool) -> None:
    """Say in the status how far it is; `progress` is not estimated while it is scaled or paused."""
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
    required = ["terminatingReplicas"]
    rollout.plan.set_status(owner, new, required=required, annotations=revision)


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


def _with_failure(rollout: Rollout, conditions: list[Json]) -> list[Json]:
    """What keeps a ReplicaSet from having its pods, the new one's first."""
    failures = (condition(one, "ReplicaFailure") for one in reversed(rollout.all))
    failure = next(filter(None, failures), None)
    rest = without_condition(conditions, "ReplicaFailure")
    if failure is None:
        return rest
    return [*rest, {**failure, "lastUpdateTime": failure["lastTransitionTime"]}]


def _with_progress(
    rollout: Rollout, conditions: list[Json], new: Json, *, estimate: bool
) -> list[Json]:
    """The conditions with `Progressing`, for those who have set a deadline."""
    deadline = spec(rollout.owner).get("progressDeadlineSeconds")
    if deadline is None or deadline == NO_LIMIT:
        return without_condition(conditions, "Progressing")
    says = _begun(rollout)
    if says is None and estimate:
        says = _progress(rollout, new, deadline)
    if says is None:
        return conditions
    again = says[1] == "ReplicaSetUpdated"
    return _with(conditions, "Progressing", *says, rollout.now, again=again)


def _begun(rollout: Rollout) -> tuple[str, str, str] | None:
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


def _progress(rollout: Rollout, new: Json, deadline: int) -> tuple[str, str, str] | None:
    """The same for a rollout that is complete, gets on, or has been stuck for too long."""
    owner, current = rollout.owner, condition(rollout.owner, "Progressing")
    rolled_out = current is not None and current["reason"] == "NewReplicaSetAvailable"
    if rolled_out and new["replicas"] == new["updatedReplicas"]:
        return None
    what = f'Deployment "{meta(owner)["name"]}"'
    if rollout.new is not None:
        what = f'ReplicaSet "{meta(rollout.new)["name"]}"'
    if is_complete(owner, new):
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
