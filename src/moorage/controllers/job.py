"""Jobs: pods that run to their end, so many at a time, until enough have or too many failed.

Each pod is counted exactly once: it carries a finalizer until its end is in the status.
Upstream: kubernetes@v1.37.1 pkg/controller/job.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moorage.controllers.cluster import ClusterObjects
from moorage.controllers.objects import (
    Json,
    age,
    annotations,
    condition,
    finds_its_own,
    is_active,
    is_finished,
    is_going,
    is_ready,
    meta,
    phase,
    pod_from,
    rfc3339,
    seconds,
    spec,
    status,
    with_condition,
)
from moorage.controllers.plan import Note, Plan

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BURST = 500
_FIRST_WAIT, _LONGEST_WAIT = 10.0, 600.0
_OURS = (None, "", "kubernetes.io/job-controller")


class _End(NamedTuple):
    """Why a Job is over."""

    failed: bool
    reason: str
    message: str


_COMPLETE = _End(
    failed=False,
    reason="CompletionsReached",
    message="Reached expected number of succeeded pods",
)
_TOO_MANY_FAILED = _End(
    failed=True,
    reason="BackoffLimitExceeded",
    message="Job has reached the specified backoff limit",
)
_TOO_LATE = _End(
    failed=True,
    reason="DeadlineExceeded",
    message="Job was active longer than specified deadline",
)


class _Tally:
    """How many pods have succeeded and failed, those among them that the status does not count."""

    def __init__(self, owner: Json, pods: list[Json]) -> None:
        old = status(owner)
        self.indexed = spec(owner).get("completionMode") == "Indexed"
        self.tracked = {meta(p)["uid"]: p for p in pods if FINALIZER in _finalizers(p)}
        noted = old.get("uncountedTerminatedPods") or {}
        self.uncounted: dict[str, list[str]] = {}
        self.counted: dict[str, int] = {}
        for kind, has_ended in (("succeeded", _has_succeeded), ("failed", _has_failed)):
            uids = list(noted.get(kind) or ())
            # Without its finalizer a pod may vanish: from then on only the number tells of it.
            self.counted[kind] = int(old.get(kind, 0)) + sum(u not in self.tracked for u in uids)
            waiting = [uid for uid in uids if uid in self.tracked]
            ended = [uid for uid, pod in self.tracked.items() if has_ended(pod)]
            self.uncounted[kind] = [*waiting, *(uid for uid in ended if uid not in waiting)]
        self.failed = self.counted["failed"] + len(self.uncounted["failed"])
        self.indexes: set[int] = set()
        if self.indexed:
            most = int(spec(owner).get("completions") or 0)
            self.indexes = set(_numbers(old.get("completedIndexes", ""))) | {
                number
                for pod in pods
                if _has_succeeded(pod) and 0 <= (number := _index(pod)) < most
            }
            self.succeeded = len(self.indexes)
            self.counted["succeeded"] = self.succeeded
        else:
            self.succeeded = self.counted["succeeded"] + len(self.uncounted["succeeded"])


def reconcile(cluster: ClusterObjects, owner: Json, now: float) -> Plan:
    """Count what has ended, start what is missing, and say so when the Job is over."""
    plan = Plan()
    if not finds_its_own(owner) or spec(owner).get("managedBy") not in _OURS:
        return plan
    pods = plan.claim(cluster, owner, "Pod")
    if _is_over(owner):
        for pod in pods:
            _untrack(plan, pod)
        _expire(plan, owner, now)
        return plan
    tally = _Tally(owner, pods)
    active = sorted(filter(is_active, pods), key=age)
    started = _started(owner, now)
    end = _end(plan, owner, tally, active, started, now)
    _report(plan, owner, tally, active, pods, started, end, now)
    for uid in (*tally.uncounted["succeeded"], *tally.uncounted["failed"]):
        _untrack(plan, tally.tracked[uid])
    if end is not None or spec(owner).get("suspend"):
        _stop(plan, owner, active)
    elif not is_going(owner):
        _manage(plan, owner, tally, active, pods, now)
    return plan


def _is_over(owner: Json) -> bool:
    found = (condition(owner, kind) for kind in ("Complete", "Failed"))
    return any(one is not None and one["status"] == "True" for one in found)


def _expire(plan: Plan, owner: Json, now: float) -> None:
    """A Job that is over goes after a while, if it says so."""
    wait = spec(owner).get("ttlSecondsAfterFinished")
    over = condition(owner, "Complete") or condition(owner, "Failed")
    if wait is None or over is None:
        return
    left = seconds(over["lastTransitionTime"]) + wait - now
    if left > 0:
        plan.look_again([left])
    else:
        plan.delete(owner)


def _started(owner: Json, now: float) -> str:
    """Since when it runs; empty while it is suspended."""
    if spec(owner).get("suspend"):
        return ""
    return status(owner).get("startTime") or rfc3339(now)


def _end(
    plan: Plan, owner: Json, tally: _Tally, active: list[Json], started: str, now: float
) -> _End | None:
    target = condition(owner, "FailureTarget")
    if target is not None:
        return _End(failed=True, reason=target["reason"], message=target["message"])
    if tally.failed > spec(owner).get("backoffLimit", 6):
        return _TOO_MANY_FAILED
    deadline = spec(owner).get("activeDeadlineSeconds")
    if deadline is not None and started:
        left = seconds(started) + deadline - now
        if left <= 0:
            return _TOO_LATE
        plan.look_again([left])
    completions = spec(owner).get("completions")
    enough = tally.succeeded > 0 if completions is None else tally.succeeded >= completions
    return _COMPLETE if enough and not active else None


# ---- pods ----


def _manage(
    plan: Plan, owner: Json, tally: _Tally, active: list[Json], pods: list[Json], now: float
) -> None:
    parallelism = int(spec(owner).get("parallelism", 1))
    completions = spec(owner).get("completions")
    if completions is not None:
        wanted = max(0, min(parallelism, completions - tally.succeeded))
    else:
        wanted = len(active) if tally.succeeded else parallelism
    surplus = _surplus(owner, tally, active, wanted)
    if surplus:
        _stop(plan, owner, surplus[:BURST])
        return
    missing = wanted - len(active)
    if spec(owner).get("podReplacementPolicy") == "Failed":
        missing -= sum(is_going(pod) and not is_finished(pod) for pod in pods)
    if missing <= 0:
        return
    wait = _wait(pods, now)
    if wait > 0:
        plan.look_again([wait])
        return
    if not tally.indexed:
        for _ in range(min(missing, BURST)):
            _create(plan, owner, None)
        return
    taken = tally.indexes | set(map(_index, active))
    free = [number for number in range(completions or 0) if number not in taken]
    for number in free[: min(missing, BURST)]:
        _create(plan, owner, number)


def _surplus(owner: Json, tally: _Tally, active: list[Json], wanted: int) -> list[Json]:
    """The pods that are too many: first those whose index is done, taken or out of range."""
    useless, useful, seen = [], [], set(tally.indexes)
    for pod in active:
        number = _index(pod)
        if tally.indexed and (number in seen or not 0 <= number < spec(owner)["completions"]):
            useless.append(pod)
        else:
            useful.append(pod)
            seen.add(number)
    useful.sort(key=lambda pod: (bool(spec(pod).get("nodeName")), is_ready(pod)))
    return useless + useful[: max(0, len(useful) - wanted)]


def _stop(plan: Plan, owner: Json, pods: Iterable[Json]) -> None:
    """Take pods away that are not to count as failed."""
    for pod in pods:
        _untrack(plan, pod)
        plan.delete(pod, Note(owner, "SuccessfulDelete", "Deleted pod: {name}"))


def _create(plan: Plan, owner: Json, index: int | None) -> None:
    name = meta(owner)["name"]
    pod = pod_from(spec(owner).get("template") or {}, owner)
    metadata = pod["metadata"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), FINALIZER]
    if index is not None:
        metadata["generateName"] = f"{name}-{index}-"
        metadata["annotations"][INDEX] = metadata["labels"][INDEX] = str(index)
        pod["spec"]["hostname"] = f"{name}-{index}"
        path = f"metadata.labels['{INDEX}']"
        variable = {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
        }
        for field in ("initContainers", "containers"):
            if pod["spec"].get(field):
                pod["spec"][field] = [
                    {**one, "env": [*(one.get("env") or ()), variable]}
                    for one in pod["spec"][field]
                ]
    plan.create(pod, Note(owner, "SuccessfulCreate", "Created pod: {name}"))


def _wait(pods: list[Json], now: float) -> float:
    """How long to wait after failures: ten seconds, doubled with each since the last success."""
    last = max((_ended_at(pod) for pod in pods if _has_succeeded(pod)), default=0.0)
    failures = [at for pod in pods if _has_failed(pod) and (at := _ended_at(pod)) > last]
    if not failures:
        return 0.0
    pause: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(len(failures) - 1, 10))
    return max(failures) + pause - now


def untrack(cluster: ClusterObjects, pod: Json) -> Plan:
    """Let a pod go whose Job is gone."""
    plan = Plan()
    owners = meta(pod).get("ownerReferences") or ()
    jobs = (
        cluster.get("Job", meta(pod)["namespace"], one["name"])
        for one in owners
        if one["kind"] == "Job"
    )
    if all(job is None for job in jobs):
        _untrack(plan, pod)
    return plan


def is_tracked(pod: Json) -> bool:
    """Does the pod wait to be counted?"""
    return FINALIZER in _finalizers(pod)


def _untrack(plan: Plan, pod: Json) -> None:
    rest = [name for name in _finalizers(pod) if name != FINALIZER]
    if len(rest) < len(_finalizers(pod)):
        plan.change(pod, metadata={"finalizers": rest or None})


def _finalizers(pod: Json) -> list[str]:
    return meta(pod).get("finalizers") or []


def _has_succeeded(pod: Json) -> bool:
    return phase(pod) == "Succeeded"


def _has_failed(pod: Json) -> bool:
    return phase(pod) == "Failed" or (is_going(pod) and phase(pod) != "Succeeded")


def _ended_at(pod: Json) -> float:
    states = [one.get("state") or {} for one in status(pod).get("containerStatuses") or ()]
    ends = [end for one in states if (end := (one.get("terminated") or {}).get("finishedAt"))]
    ready = (condition(pod, "Ready") or {}).get("lastTransitionTime")
    return seconds(max(ends, default=None) or ready or meta(pod)["creationTimestamp"])


def _index(pod: Json) -> int:
    text = annotations(pod).get(INDEX, "")
    return int(text) if text.isdigit() else -1


# ---- status ----


def _report(
    plan: Plan,
    owner: Json,
    tally: _Tally,
    active: list[Json],
    pods: list[Json],
    started: str,
    end: _End | None,
    now: float,
) -> None:
    terminating = sum(is_going(pod) and not is_finished(pod) for pod in pods)
    conditions = _with_suspension(owner, status(owner).get("conditions") or [], now)
    uncounted = {kind: uids for kind, uids in tally.uncounted.items() if uids}
    if tally.indexed:
        uncounted.pop("succeeded", None)
    new: Json = {
        "startTime": started,
        "active": len(active),
        "ready": sum(map(is_ready, active)),
        "terminating": terminating,
        "succeeded": tally.counted["succeeded"],
        "failed": tally.counted["failed"],
        "uncountedTerminatedPods": uncounted,
        "completedIndexes": _intervals(sorted(tally.indexes)),
        "conditions": conditions,
    }
    note = None
    if end is not None:
        first = "FailureTarget" if end.failed else "SuccessCriteriaMet"
        conditions = _with(conditions, first, end, now)
        if not (active or terminating or uncounted):
            conditions = _with(conditions, "Failed" if end.failed else "Complete", end, now)
            if end.failed:
                note = Note(owner, end.reason, end.message, "Warning")
            else:
                new["completionTime"] = rfc3339(now)
                note = Note(owner, "Completed", "Job completed")
        new["conditions"] = conditions
    required = ["ready", "terminating", "uncountedTerminatedPods"]
    plan.set_status(owner, new, required=required, note=note)


def _with(conditions: list[Json], kind: str, end: _End, now: float) -> list[Json]:
    if any(one["type"] == kind for one in conditions):
        return conditions
    new = {"type": kind, "status": "True", "reason": end.reason, "message": end.message}
    return with_condition(conditions, {**new, "lastProbeTime": rfc3339(now)}, now)


def _with_suspension(owner: Json, conditions: list[Json], now: float) -> list[Json]:
    suspended, old = bool(spec(owner).get("suspend")), condition(owner, "Suspended")
    if (old is None and not suspended) or (old and (old["status"] == "True") == suspended):
        return conditions
    reason, message = (
        ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
    )
    new = {"type": "Suspended", "status": str(suspended), "reason": reason, "message": message}
    return with_condition(conditions, {**new, "lastProbeTime": rfc3339(now)}, now)


def _numbers(text: str) -> Iterator[int]:
    """`1,3-5` as 1, 3, 4, 5."""
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _intervals(numbers: list[int]) -> str:
    """1, 3, 4, 5 as `1,3-5`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
