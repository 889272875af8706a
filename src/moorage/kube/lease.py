"""The Lease by which instances agree on one leader: its record, read and written safely.

Owns the record's fields, their form on the wire and the optimistic locking by resource version.
When to take, renew or give up a lease is `leader_election`'s decision.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

import msgspec

from moorage.errors import ApiError, DecodeError, UnreachableError
from moorage.kube.requests import Json
from moorage.kube.resources import RESOURCES, Resource
from moorage.kube.timing import parse_time
from moorage.model.decode import describe, sentence

LEASE = RESOURCES["Lease"]


class LeaseApi(Protocol):
    """What of `KubeClient` a lease needs."""

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


class LeaderElectionRecord(msgspec.Struct, frozen=True):
    """What a Lease says about leadership; times are MicroTime texts, None where it has none."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    leader_transitions: int = 0
    strategy: str = ""
    preferred_holder: str = ""

    def spec(self) -> Json:
        """The Lease's whole spec: what is not part of the record does not survive a write."""
        spec: Json = {
            "holderIdentity": self.holder_identity,
            "leaseDurationSeconds": self.lease_duration_seconds,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.leader_transitions,
        }
        if self.preferred_holder:
            spec["preferredHolder"] = self.preferred_holder
        if self.strategy:
            spec["strategy"] = self.strategy
        return spec


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class _Lease(msgspec.Struct):
    spec: _Spec | None = None


def read_record(lease: Json) -> LeaderElectionRecord:
    """The record in a Lease; `DecodeError` says which field of which Lease means nothing."""
    try:
        spec = msgspec.convert(lease, _Lease).spec or _Spec()
        for name, text in (("acquireTime", spec.acquire_time), ("renewTime", spec.renew_time)):
            _check_time(name, text)
    except msgspec.ValidationError as error:
        metadata = lease.get("metadata")
        meta: Json = metadata if isinstance(metadata, dict) else {}
        subject = describe("Lease", str(meta.get("namespace", "")), str(meta.get("name", "")))
        raise DecodeError(sentence(subject, str(error))) from None
    return LeaderElectionRecord(
        holder_identity=spec.holder_identity or "",
        lease_duration_seconds=spec.lease_duration_seconds or 0,
        acquire_time=spec.acquire_time,
        renew_time=spec.renew_time,
        leader_transitions=spec.lease_transitions or 0,
        strategy=spec.strategy or "",
        preferred_holder=spec.preferred_holder or "",
    )


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

    def __init__(
        self,
        client: LeaseApi,
        namespace: str,
        name: str,
        *,
        timeout: float,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.lease: Json | None = None
        self._client = client
        self._timeout = timeout
        self._labels = dict(labels or {})

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
        metadata: Json = {"name": self.name, "namespace": self.namespace}
        if self._labels:
            metadata["labels"] = self._labels
        body = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": metadata,
            "spec": record.spec(),
        }
        self.lease = await self._bounded(self._client.create(LEASE, self.namespace, body))

    async def update(self, record: LeaderElectionRecord) -> None:
        """Write the record over the Lease as it was last seen; 409 if it has changed since."""
        if self.lease is None:
            raise ApiError(0, "", "lease not initialized, call get or create first")
        body = {**self.lease, "spec": record.spec()}
        if self._labels:
            metadata = body.get("metadata") or {}
            labels = {**(metadata.get("labels") or {}), **self._labels}
            body["metadata"] = {**metadata, "labels": labels}
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
