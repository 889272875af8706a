"""The API of a simulation as plugins reach it: a client for objects of any kind, a binding port.

What they write is in the objects at once, and everybody who follows them hears of it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec

from moorage.controllers.cluster import Key
from moorage.controllers.objects import Json, labels, meta, status
from moorage.framework.api_access import NO_LABELS, ApiClient, Kind, WatchEvent
from moorage.kube.api_port import claim_body, status_body
from moorage.kube.resources import RESOURCES, resource_for
from moorage.model.custom import CustomObject
from moorage.model.devices import ResourceClaim
from moorage.model.labels import Labels, selector_from_labels
from moorage.model.pod import (
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    Pod,
)
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim
from moorage.scenarios.json_api import JsonApi
from moorage.simulator.api import SimulatedCluster, SimulatedPort


class JsonClient(ApiClient):
    """`ApiClient` over the objects of a simulation."""

    def __init__(self, api: JsonApi) -> None:
        self._api = api

    async def get(self, kind: Kind, name: str, namespace: str = "") -> Json:
        """One object."""
        return self._api.get(self._key(kind, namespace, name))

    async def list(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> list[Json]:
        """All objects."""
        selector, name = selector_from_labels(labels), self._key(kind, "", "").kind
        return [
            obj
            for obj in self._api.cluster.all(name, namespace or "*")
            if selector.matches(_labels(obj))
        ]

    async def create(self, kind: Kind, body: Json, namespace: str = "") -> Json:
        """Make an object."""
        del kind
        return self._api.create({**body, "metadata": {**meta(body), "namespace": namespace}})

    async def patch(
        self, kind: Kind, name: str, body: Json, namespace: str = "", *, subresource: str = ""
    ) -> Json:
        """Change parts of an object."""
        del subresource
        return self._api.patch(self._key(kind, namespace, name), body)

    async def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object."""
        self._api.delete(self._key(kind, namespace, name))

    async def watch(
        self, kind: Kind, namespace: str = "", *, labels: Labels = NO_LABELS
    ) -> AsyncIterator[WatchEvent]:
        """All objects; nothing changes while one looks."""
        for obj in await self.list(kind, namespace, labels=labels):
            yield WatchEvent("ADDED", obj)

    def _key(self, kind: Kind, namespace: str, name: str) -> Key:
        text = kind if isinstance(kind, str) else kind.__name__
        if text not in RESOURCES and resource_for(text).struct is CustomObject:
            text = self._api.kind_of(text)
        return Key(text, namespace, name)


def _labels(obj: Json) -> Labels:
    return labels(obj)


class JsonPort(SimulatedPort):
    """`ApiPort` over the objects of a simulation; `sleep` lets virtual time pass."""

    def __init__(
        self, api: JsonApi, world: SimulatedCluster, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        super().__init__(world)
        self._api = api
        self._sleep = sleep

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Assign the pod to the node."""
        self._api.bind(pod_key(pod), pod.uid, node_name)

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference and annotations."""
        claim = msgspec.to_builtins(volume.spec.claim_ref)
        key = Key("PersistentVolume", "", volume.name)
        changes = {"metadata": _seen(volume), "spec": {"claimRef": claim}}
        return msgspec.convert(self._api.patch(key, changes), PersistentVolume)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations."""
        key = Key("PersistentVolumeClaim", claim.namespace, claim.name)
        return msgspec.convert(
            self._api.patch(key, {"metadata": _seen(claim)}), PersistentVolumeClaim
        )

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """A claim on devices."""
        return msgspec.convert(self._api.get(Key("ResourceClaim", namespace, name)), ResourceClaim)

    async def create_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Make a claim under a generated name."""
        body = claim_body(claim)
        body["metadata"]["namespace"] = claim.namespace
        return msgspec.convert(self._api.create(body), ResourceClaim)

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers."""
        return self._claim(claim, {"finalizers": list(claim.metadata.finalizers) or None})

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Write allocation and users."""
        return self._claim(claim, {}, status=status_body(claim.status))

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        """Take one user off the claim."""
        stored = self._api.get(_claim_key(claim))
        users = [one for one in status(stored).get("reservedFor") or () if one["uid"] != user_uid]
        self._api.patch(
            _claim_key(claim),
            {
                "metadata": {"uid": claim.metadata.uid},
                "status": {"reservedFor": users or None},
            },
        )

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Delete a claim."""
        self._api.delete(_claim_key(claim))

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Write into the pod's status which claim serves its extended resources."""
        written = {
            "resourceClaimName": claim_name,
            "requestMappings": [msgspec.to_builtins(mapping) for mapping in mappings],
        }
        self._api.patch_status(pod_key(pod), {"extendedResourceClaimStatus": written})

    async def write_node_allocatable_claims(
        self, pod: Pod, statuses: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> None:
        """Write into the pod's status what its claims take of the node."""
        written = [msgspec.to_builtins(one) for one in statuses]
        changes = {"nodeAllocatableResourceClaimStatuses": written}
        self._api.patch(pod_key(pod), {"metadata": {"uid": pod.uid}, "status": changes})

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self._sleep(seconds)

    def _claim(self, claim: ResourceClaim, metadata: Json, **parts: Json) -> ResourceClaim:
        version = claim.metadata.resource_version
        changes = {"metadata": {"resourceVersion": version, **metadata}, **parts}
        return msgspec.convert(self._api.patch(_claim_key(claim), changes), ResourceClaim)


def pod_key(pod: Pod) -> Key:
    """Where a pod is among the objects."""
    return Key("Pod", pod.namespace, pod.name)


def _claim_key(claim: ResourceClaim) -> Key:
    return Key("ResourceClaim", claim.namespace, claim.name)


def _seen(obj: PersistentVolume | PersistentVolumeClaim) -> Json:
    """The annotations to be written, unless the object has changed since."""
    metadata = obj.metadata
    return {"resourceVersion": metadata.resource_version, "annotations": dict(metadata.annotations)}
