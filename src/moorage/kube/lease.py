"""The Lease by which instances agree on one leader: its record, its lock and events about it.

Owns the record's fields, their form on the wire and the optimistic locking by resource version.
When to take, renew or give up a lease is `leader_election`'s decision. Events about leadership are
core/v1 events on the Lease, as kube-scheduler's legacy recorder writes them; the election never
waits for them.
"""

import asyncio
import logging
from collections.abc import Awaitable
from random import Random
from typing import Any, Protocol

import msgspec

from moorage.errors import ApiError, DecodeError, KubeconfigError, UnreachableError
from moorage.kube.event_series import event_name
from moorage.kube.object_watch import StreamApi
from moorage.kube.requests import Json
from moorage.kube.resources import RESOURCES, Resource
from moorage.kube.timing import WallTimer, parse_time, rfc3339
from moorage.model.decode import describe, sentence, without_nulls

LEASE = RESOURCES["Lease"]
log = logging.getLogger(__name__)

CORE_EVENT = Resource("Event", "", "v1", "events", True)
MOST_TRIES = 12
RETRY_WAIT = 10.0


class LeaseApi(StreamApi, Protocol):
    """What of `KubeClient` an election needs."""

    async def get(self, resource: Resource, namespace: str, name: str) -> Json:
        """One object."""
        ...

    async def create(self, resource: Resource, namespace: str, body: Any) -> Json:
        """Make an object."""
        ...

    async def update(
        self, resource: Resource, namespace: str, name: str, body: Any, subresource: str = ""
    ) -> Json:
        """Replace an object."""
        ...


class LeaderElectionRecord(msgspec.Struct, frozen=True, rename="camel"):
    """What a Lease says about leadership; times are MicroTime texts, None where it has none."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = msgspec.field(default=0, name="leaseTransitions")
    strategy: str = ""
    preferred_holder: str = ""

    def spec(self) -> Json:
        """The Lease's whole spec: what is not part of the record does not survive a write."""
        spec: Json = msgspec.to_builtins(self)
        for field in ("strategy", "preferredHolder"):
            if not spec[field]:
                del spec[field]
        return spec


class _Lease(msgspec.Struct):
    spec: LeaderElectionRecord = LeaderElectionRecord()


def read_record(lease: Json) -> LeaderElectionRecord:
    """The record in a Lease; `DecodeError` says which field of which Lease means nothing."""
    try:
        spec = {"spec": without_nulls(lease["spec"])} if lease.get("spec") is not None else {}
        record = msgspec.convert(spec, _Lease).spec
        for name, text in (("acquireTime", record.acquire_time), ("renewTime", record.renew_time)):
            _check_time(name, text)
    except msgspec.ValidationError as error:
        metadata = lease.get("metadata")
        meta: Json = metadata if isinstance(metadata, dict) else {}
        subject = describe("Lease", str(meta.get("namespace", "")), str(meta.get("name", "")))
        raise DecodeError(sentence(subject, str(error))) from None
    return record


def _check_time(name: str, text: str | None) -> None:
    if text is None:
        return
    try:
        parse_time(text)
    except ValueError:
        message = f"Expected an RFC 3339 time, got {text!r} - at `$.spec.{name}`"
        raise msgspec.ValidationError(message) from None


class LeaseLock:
    """One Lease; `lease` is how it was last seen, which is what an update builds upon."""

    def __init__(self, client: LeaseApi, namespace: str, name: str, *, timeout: float) -> None:
        self.namespace = namespace
        self.name = name
        self.lease: Json | None = None
        self._client = client
        self._timeout = timeout

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    async def get(self) -> LeaderElectionRecord:
        """The record as the API server has it now."""
        lease = await self._bounded(self._client.get(LEASE, self.namespace, self.name))
        record = read_record(lease)
        self.lease = lease
        return record

    async def create(self, record: LeaderElectionRecord) -> None:
        """Make the Lease; 409 if somebody else was faster."""
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": record.spec(),
        }
        self.lease = await self._bounded(self._client.create(LEASE, self.namespace, body))

    async def update(self, record: LeaderElectionRecord) -> None:
        """Write the record over the Lease as it was last seen; 409 if it has changed since."""
        if self.lease is None:
            raise ApiError(0, "", "lease not initialized, call get or create first")
        body = {**self.lease, "spec": record.spec()}
        self.lease = await self._bounded(
            self._client.update(LEASE, self.namespace, self.name, body)
        )

    async def _bounded(self, call: Awaitable[Json]) -> Json:
        """The answer, if it comes in time, whatever the client waits for and repeats meanwhile."""
        try:
            async with asyncio.timeout(self._timeout):
                return await call
        except TimeoutError:
            message = f"the API server did not answer about the lease {self} in {self._timeout:g}s"
            raise UnreachableError(message, maybe_applied=True) from None


class LeaseEvents:
    """Writes events in the name of `component`, the first profile's scheduler name."""

    def __init__(self, client: LeaseApi, component: str) -> None:
        self._client = client
        self._component = component
        self._timer = WallTimer()
        self._random = Random()
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
