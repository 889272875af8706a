"""Simulated kubelets: bound pods start, finish where told to, and go when deleted.

They read changes and write through `Operations` like any client, so every effect is visible on
watches. Which nodes are theirs and how long a stage takes follows KWOK's annotations. No
containers, no time of their own: delays run on the event loop.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from moorage.apiserver.defaults import mappings
from moorage.apiserver.deletion import DeleteOptions
from moorage.apiserver.errors import ApiStatusError, Json
from moorage.apiserver.history import Stored
from moorage.apiserver.node_heartbeats import NodeHeartbeats, harmless
from moorage.apiserver.operations import Operations
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.subresources import set_condition
from moorage.model.duration import parse_duration

FINISH_AFTER = "moorage.io/finish-after"
EXIT_CODE = "moorage.io/exit-code"
_STAGE = "stage.kwok.x-k8s.io"
_PODS = BY_PLURAL["", "v1", "pods"]
_NODE_FIELD, _PHASE_FIELD = 0, 1


class KubeletOptions(NamedTuple):
    """How the simulated kubelets behave."""

    all_nodes: bool = True
    start_seconds: float = 0.0
    start_jitter_seconds: float = 0.0
    max_grace_seconds: float = 1.0
    job_seconds: float = 0.0
    lease_seconds: float = 10.0


def duration_seconds(text: Any) -> float | None:
    """A Go duration such as `1m30s` in seconds; None if it is none."""
    try:
        return parse_duration(text).seconds if isinstance(text, str) else None
    except ValueError:
        return None


class Kubelets:
    """All kubelets of the cluster in one task."""

    def __init__(self, operations: Operations, options: KubeletOptions) -> None:
        self._operations = operations
        self._options = options
        self._random = random.Random(0)
        self._nodes = NodeHeartbeats(
            operations, all_nodes=options.all_nodes, lease_seconds=options.lease_seconds
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: dict[tuple[str, str], asyncio.TimerHandle] = {}
        self._next_address = 0

    def start(self) -> None:
        """Take up work; what is in the store already counts too."""
        self._tasks = [
            asyncio.create_task(self._nodes.run(), name="node heartbeats"),
            asyncio.create_task(
                self._operations.store.pods.follow(self._take), name="simulated kubelets"
            ),
        ]

    async def stop(self) -> None:
        """Drop everything that is pending."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _take(self, stored: Stored) -> None:
        with harmless(f"pod {stored.key}"):
            self._look_at(stored)

    def _look_at(self, stored: Stored) -> None:
        node = stored.fields[_NODE_FIELD]
        if not node or not self._nodes.manages(node):
            return
        pod = stored.object()
        if pod["metadata"].get("deletionTimestamp"):
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            delay = self._delay(pod, "pod-delete", min(grace, self._options.max_grace_seconds))
            self._later(stored, "delete", delay, self._delete)
        elif stored.fields[_PHASE_FIELD] == "Pending":
            jitter = self._random.random() * self._options.start_jitter_seconds
            delay = self._delay(pod, "pod-ready", self._options.start_seconds + jitter)
            self._later(stored, "start", delay, self._start)
        elif stored.fields[_PHASE_FIELD] == "Running":
            lifetime = self._lifetime(pod)
            if lifetime is not None:
                self._later(stored, "finish", lifetime, self._finish)

    def _delay(self, pod: Json, stage: str, default: float) -> float:
        annotations = pod["metadata"].get("annotations") or {}
        delay = duration_seconds(annotations.get(f"{stage}.{_STAGE}/delay"))
        jitter = duration_seconds(annotations.get(f"{stage}.{_STAGE}/jitter-delay"))
        if delay is None:
            return default
        # KWOK's jitter is the upper end of the delay, not an addition to it.
        return delay if jitter is None else self._random.uniform(delay, max(delay, jitter))

    def _lifetime(self, pod: Json) -> float | None:
        annotations = pod["metadata"].get("annotations") or {}
        lifetime = duration_seconds(annotations.get(FINISH_AFTER))
        if lifetime is not None:
            return lifetime
        owners = mappings(pod["metadata"].get("ownerReferences"))
        job = any(owner.get("kind") == "Job" for owner in owners)
        if job or f"pod-complete.{_STAGE}/delay" in annotations:
            return self._delay(pod, "pod-complete", self._options.job_seconds)
        return None

    def _later(
        self, stored: Stored, stage: str, delay: float, act: Callable[[Stored], None]
    ) -> None:
        mark = (stored.uid, stage)
        if mark in self._timers:
            return

        def due() -> None:
            self._timers.pop(mark, None)
            with harmless(f"pod {stored.key}"):
                act(stored)

        if delay <= 0:
            due()
        else:
            self._timers[mark] = asyncio.get_running_loop().call_later(delay, due)

    # ---- stages ----

    def _start(self, stored: Stored) -> None:
        now = self._operations.identities.now()
        node_address = self._nodes.address(stored.fields[_NODE_FIELD])

        def running(pod: Json) -> Json:
            _same(pod, stored)
            spec, status = pod["spec"], pod["status"]
            address = node_address if spec.get("hostNetwork") else self._address()
            status["phase"] = "Running"
            status["startTime"] = now
            status["hostIP"], status["hostIPs"] = node_address, [{"ip": node_address}]
            status["podIP"], status["podIPs"] = address, [{"ip": address}]
            for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
                set_condition(status, {"type": kind, "status": "True"}, now)
            set_condition(status, {"type": "PodScheduled", "status": "True"}, now)
            status["containerStatuses"] = [
                _container_status(container, {"running": {"startedAt": now}}, ready=True)
                for container in mappings(spec.get("containers"))
            ]
            done = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
            initial = [
                _container_status(container, {"terminated": done}, ready=True)
                for container in mappings(spec.get("initContainers"))
            ]
            if initial:
                status["initContainerStatuses"] = initial
            return pod

        self._change(stored, running)

    def _finish(self, stored: Stored) -> None:
        now = self._operations.identities.now()

        def finished(pod: Json) -> Json:
            _same(pod, stored)
            annotations = pod["metadata"].get("annotations") or {}
            code = annotations.get(EXIT_CODE) or annotations.get(
                f"pod-complete.{_STAGE}/exit-code", "0"
            )
            failed = code.lstrip("-").isdigit() and int(code) != 0
            status = pod["status"]
            status["phase"] = "Failed" if failed else "Succeeded"
            for kind in ("Ready", "ContainersReady"):
                reason = {"reason": "PodFailed" if failed else "PodCompleted"}
                set_condition(status, {"type": kind, "status": "False", **reason}, now)
            ended = {
                "exitCode": int(code) if failed else 0,
                "reason": "Error" if failed else "Completed",
                "startedAt": status.get("startTime", now),
                "finishedAt": now,
            }
            status["containerStatuses"] = [
                _container_status(container, {"terminated": ended}, ready=False)
                for container in mappings(pod["spec"].get("containers"))
            ]
            return pod

        self._change(stored, finished)

    def _delete(self, stored: Stored) -> None:
        options = DeleteOptions(grace=0, uid=stored.uid)
        self._operations.delete(_PODS, stored.namespace, stored.name, options)

    def _change(self, stored: Stored, change: Callable[[Json], Json]) -> None:
        self._operations.change(_PODS, stored.namespace, stored.name, change, subresource="status")

    def _address(self) -> str:
        self._next_address += 1
        number = self._next_address % (2**24 - 2) + 1
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _same(pod: Json, stored: Stored) -> None:
    """A timer may outlive its pod: the next one of that name is none of its business."""
    if pod["metadata"]["uid"] != stored.uid or pod["metadata"].get("deletionTimestamp"):
        raise ApiStatusError(409, "Conflict", "the pod has gone or is going")


def _container_status(container: Json, state: Json, *, ready: bool) -> Json:
    name, image = container.get("name", ""), container.get("image", "")
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
