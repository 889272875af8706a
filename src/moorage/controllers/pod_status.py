"""What a kubelet says of a pod when it starts, fails, is tried again, and finishes.

Owns the statuses of pods and their containers, all of a pod's containers alike. When each of these
happens is `kubelet`'s business.
"""

from typing import Any

from moorage.controllers.objects import Json, condition, meta, rfc3339, spec, status, with_condition
from moorage.controllers.plan import Plan

KILLED = 137
"""The exit code of what did not end by itself."""
_BACKING_OFF = "CrashLoopBackOff"
_WHEN_STARTED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def start(plan: Plan, pod: Json, node_address: str, address: str, now: float) -> None:
    """The containers run and are ready; those for initialisation are done."""
    new: Json = {
        **_conditions(pod, now, "True", *_WHEN_STARTED, "PodScheduled"),
        "phase": "Running",
        "startTime": rfc3339(now),
        "hostIP": node_address,
        "hostIPs": [{"ip": node_address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": _containers(pod, {"running": {"startedAt": rfc3339(now)}}),
    }
    generation = meta(pod).get("generation")
    if generation:
        new["observedGeneration"] = generation
    if spec(pod).get("initContainers"):
        new["initContainerStatuses"] = [
            _first(container, now) for container in spec(pod)["initContainers"]
        ]
    plan.set_status(pod, {**status(pod), **new})


def back_off(plan: Plan, pod: Json, code: int, now: float) -> None:
    """The containers have failed, and wait to be started again."""
    message = "back-off restarting failed container"
    new = {
        **_conditions(pod, now, "False", "Ready", "ContainersReady", reason="ContainersNotReady"),
        "containerStatuses": _containers(
            pod,
            {"waiting": {"reason": _BACKING_OFF, "message": message}},
            last={"terminated": _ended(pod, code, now)},
        ),
    }
    plan.set_status(pod, {**status(pod), **new})


def restart(plan: Plan, pod: Json, now: float) -> None:
    """The containers run again."""
    new = {
        **_conditions(pod, now, "True", "Ready", "ContainersReady"),
        "containerStatuses": _containers(
            pod, {"running": {"startedAt": rfc3339(now)}}, restarts=restarts(pod) + 1
        ),
    }
    plan.set_status(pod, {**status(pod), **new})


def finish(plan: Plan, pod: Json, code: int, now: float) -> None:
    """The containers have ended, and the pod with them."""
    reason = "PodFailed" if code else "PodCompleted"
    ended = {"terminated": _ended(pod, code, now)}
    new = {
        **_conditions(pod, now, "False", "Ready", "ContainersReady", reason=reason),
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": _containers(pod, ended),
    }
    plan.set_status(pod, {**status(pod), **new})


def is_backing_off(pod: Json) -> bool:
    """Have the containers failed, and were not started again yet?"""
    return bool(_state(pod).get("waiting", {}).get("reason") == _BACKING_OFF)


def restarts(pod: Json) -> int:
    """How often the containers were started again."""
    return int(_container(pod).get("restartCount") or 0)


def started(pod: Json) -> str:
    """When the containers were last started, as the API writes times; empty if they do not run."""
    return str(_state(pod).get("running", {}).get("startedAt") or "")


def _container(pod: Json) -> Json:
    return next(iter(status(pod).get("containerStatuses") or ()), {})


def _state(pod: Json) -> Json:
    return _container(pod).get("state") or {}


def _conditions(pod: Json, now: float, says: str, *kinds: str, **more: str) -> Json:
    found: list[Json] = status(pod).get("conditions") or []
    for kind in kinds:
        old = condition(pod, kind) or {}
        kept = {name: old[name] for name in ("observedGeneration",) if name in old}
        found = with_condition(found, {"type": kind, "status": says, **kept, **more}, now)
    return {"conditions": found}


def _ended(pod: Json, code: int, now: float) -> Json:
    return {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": started(pod) or status(pod).get("startTime") or rfc3339(now),
        "finishedAt": rfc3339(now),
    }


def _containers(
    pod: Json, state: Json, last: Json | None = None, restarts: int | None = None
) -> list[Json]:
    known = {one["name"]: one for one in status(pod).get("containerStatuses") or ()}
    found = []
    for container in spec(pod).get("containers") or ():
        old = known.get(container["name"], {})
        count = old.get("restartCount", 0) if restarts is None else restarts
        kept = old.get("lastState", {}) if last is None else last
        found.append(_said(container, state, kept, count))
    return found


def _first(container: Json, now: float) -> Json:
    """Of a container for initialisation: it is done; a sidecar runs on."""
    if container.get("restartPolicy") == "Always":
        return _said(container, {"running": {"startedAt": rfc3339(now)}}, {}, 0)
    moments = {"startedAt": rfc3339(now), "finishedAt": rfc3339(now)}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", **moments}}
    return {**_said(container, done, {}, 0), "ready": True}


def _said(container: Json, state: Json, last: Json, restarts: int) -> dict[str, Any]:
    runs = "running" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "lastState": last,
        "ready": runs,
        "restartCount": restarts,
        "started": runs,
        "state": state,
    }
