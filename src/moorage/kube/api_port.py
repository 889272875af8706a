"""The API as binding plugins see it: a few verbs, nothing of HTTP.

Claims are written without empty fields, which some validation rejects. The configuration for a
driver goes through untouched, as empty values may mean something to it.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from moorage.cluster.state import ClusterState
from moorage.framework.plugin import ApiPort
from moorage.kube import requests
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.resources import resource_for
from moorage.kube.timing import Timer
from moorage.model.devices import AllocationResult, ResourceClaim, ResourceClaimStatus
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim

T = TypeVar("T", bound=ApiObject)

_CLAIM = resource_for("ResourceClaim")


def claim_body(claim: ResourceClaim) -> Json:
    """A claim to be created."""
    meta = claim.metadata
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _pruned(
            {
                "generateName": meta.generate_name,
                "name": meta.name,
                "namespace": meta.namespace,
                "annotations": meta.annotations,
                "ownerReferences": msgspec.to_builtins(meta.owner_references),
            }
        ),
        "spec": _pruned(_plain(claim.spec)),
    }


def status_body(status: ResourceClaimStatus) -> Json:
    """A merge patch for a claim's status; None removes a field."""
    body: Json = {
        "allocation": None if status.allocation is None else _allocation(status.allocation),
        "reservedFor": _pruned(msgspec.to_builtins(status.reserved_for)) or None,
    }
    if status.allocation is None:
        body["devices"] = None
    return body


def _allocation(allocation: AllocationResult) -> Json:
    body: Json = {"devices": {"results": _pruned(msgspec.to_builtins(allocation.devices.results))}}
    if allocation.devices.config:
        body["devices"]["config"] = _plain(allocation.devices.config)
    if allocation.node_selector is not None:
        body["nodeSelector"] = _pruned(msgspec.to_builtins(allocation.node_selector))
    if allocation.allocation_timestamp is not None:
        body["allocationTimestamp"] = allocation.allocation_timestamp
    return body


def _plain(value: Any) -> Any:
    """Dictionaries and lists; what was read as bytes is written as bytes."""
    return msgspec.to_builtins(value, builtin_types=(msgspec.Raw,))


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _pruned(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part not in (None, "", [], {}, ())}
    if isinstance(value, list | tuple):
        return [_pruned(part) for part in value]
    return value


class KubeApiPort(ApiPort):
    """`ApiPort` over a `KubeClient`, with what the informers know."""

    def __init__(
        self,
        client: KubeClient,
        state: ClusterState,
        timer: Timer,
        recorder: EventRecorder | None = None,
    ) -> None:
        self._client = client
        self._state = state
        self._timer = timer
        self._recorder = recorder

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the pod's binding."""
        meta = pod.metadata
        await self._client.persist(requests.bind(meta.namespace, meta.name, meta.uid, node_name))

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference and annotations."""
        metadata = {"annotations": volume.metadata.annotations}
        claim = msgspec.to_builtins(volume.spec.claim_ref)
        return await self._merge(volume, metadata, spec={"claimRef": claim})

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations."""
        return await self._merge(claim, {"annotations": claim.metadata.annotations})

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """A claim on devices, as stored."""
        stored = await self._client.get(_CLAIM, namespace, name)
        return msgspec.convert(stored, ResourceClaim)

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Make a claim under a generated name."""
        stored = await self._client.create(_CLAIM, claim.namespace, claim_body(claim))
        return msgspec.convert(stored, ResourceClaim)

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers."""
        return await self._merge(claim, {"finalizers": list(claim.metadata.finalizers) or None})

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Write allocation and users."""
        return await self._merge(claim, {}, "status", status=status_body(claim.status))

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        """Take one user off the claim; a strategic patch can name a single entry."""
        body = {
            "metadata": {"uid": claim.metadata.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": user_uid}]},
        }
        await self._client.patch(_CLAIM, claim.namespace, claim.name, body, subresource="status")

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Delete a claim."""
        await self._client.delete(_CLAIM, claim.namespace, claim.name)

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Write into the pod's status which claim serves its extended resources."""
        written = {
            "resourceClaimName": claim_name,
            "requestMappings": [msgspec.to_builtins(mapping) for mapping in mappings],
        }
        await self._client.patch_pod_status(
            pod.namespace, pod.name, {"extendedResourceClaimStatus": written}
        )

    async def write_node_allocatable_claims(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Write into the pod's status what its claims take of the node."""
        written = [msgspec.to_builtins(status) for status in statuses]
        # Merged strategically, an empty list would change nothing.
        await self._client.patch_pod_status(
            pod.namespace,
            pod.name,
            {"nodeAllocatableResourceClaimStatuses": written},
            uid="" if written else pod.uid,
            content_type=requests.STRATEGIC if written else requests.MERGE,
        )

    def report(self, pod: Pod, reason: str, message: str) -> None:
        """Write an event for users, if there is a recorder."""
        if self._recorder is not None:
            self._recorder.event(
                pod, "Normal", reason, "Scheduling", message, controller=pod.spec.scheduler_name
            )

    def node(self, name: str) -> Node | None:
        """A node as last seen."""
        row = self._state.nodes.row_of.get(name)
        return None if row is None else self._state.nodes.nodes[row]

    def pod_exists(self, pod: Pod) -> bool:
        """Is there still a pod of this name?"""
        return self._state.listers.of(Pod).get(pod.name, pod.namespace) is not None

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._timer.now()

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        await self._timer.sleep(seconds)

    async def _merge(self, obj: T, metadata: Json, subresource: str = "", **parts: Json) -> T:
        """Change an object that was read; the API refuses that if it has changed since."""
        stored = await self._client.patch(
            resource_for(type(obj).__name__),
            obj.namespace,
            obj.name,
            {"metadata": {"resourceVersion": obj.metadata.resource_version, **metadata}, **parts},
            content_type=requests.MERGE,
            subresource=subresource,
        )
        return msgspec.convert(stored, type(obj))
