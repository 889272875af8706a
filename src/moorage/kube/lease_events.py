"""Events about leadership: core/v1 events on the Lease, as kube-scheduler's legacy recorder writes.

Owns their form and the writing beside the election, which must never wait for it.
"""

import asyncio
import logging
from random import Random
from typing import Any, Protocol

from moorage.errors import ApiError, KubeconfigError, UnreachableError
from moorage.kube.event_series import event_name
from moorage.kube.requests import Json
from moorage.kube.resources import Resource
from moorage.kube.timing import Timer, WallTimer, rfc3339

log = logging.getLogger(__name__)

CORE_EVENT = Resource("Event", "", "v1", "events", True)
MOST_TRIES = 12
RETRY_WAIT = 10.0


class EventApi(Protocol):
    """What of `KubeClient` writing events needs."""

    async def create(self, resource: Resource, namespace: str, body: Any) -> Json:
        """Make an object."""
        ...


class LeaseEvents:
    """Writes events in the name of `component`, the first profile's scheduler name."""

    def __init__(
        self,
        client: EventApi,
        component: str,
        *,
        timer: Timer | None = None,
        random: Random | None = None,
    ) -> None:
        self._client = client
        self._component = component
        self._timer = timer or WallTimer()
        self._random = random or Random()
        self._tasks: set[asyncio.Task[None]] = set()

    def record(self, lease: Json, message: str) -> None:
        """Write an event about this Lease; returns at once."""
        task = asyncio.create_task(self._write(self._event(lease, message)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, timeout: float = 1.0) -> None:
        """Wait so long for what is being written, and give up the rest."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _event(self, lease: Json, message: str) -> Json:
        meta = lease.get("metadata") or {}
        now = self._timer.now()
        time = rfc3339(now)
        namespace = meta.get("namespace", "")
        name = event_name(meta.get("name", ""), int(now * 1e9))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": "Lease",
                "namespace": namespace,
                "name": meta.get("name", ""),
                "uid": meta.get("uid", ""),
                "apiVersion": "coordination.k8s.io/v1",
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "reason": "LeaderElection",
            "message": message,
            "source": {"component": self._component},
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
            "type": "Normal",
            "eventTime": None,
            "reportingComponent": self._component,
            "reportingInstance": "",
        }

    async def _write(self, event: Json) -> None:
        for attempt in range(1, MOST_TRIES + 1):
            try:
                await self._client.create(CORE_EVENT, event["metadata"]["namespace"], event)
            except UnreachableError as error:
                if attempt == MOST_TRIES:
                    log.error("an event on a lease could not be written: %s", error)
                    return
                # Many clients lose a server at one moment; they are not to return at one moment.
                share = self._random.random() if attempt == 1 else 1.0
                await self._timer.sleep(RETRY_WAIT * share)
            except (ApiError, KubeconfigError) as error:
                log.error("an event on a lease was refused: %s", error)
                return
            else:
                return
