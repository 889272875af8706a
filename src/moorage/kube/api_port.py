"""The API as binding plugins see it: a few verbs, nothing of HTTP."""

from typing import Any

import msgspec

from moorage.cluster.state import ClusterState
from moorage.framework.plugin import ApiPort
from moorage.kube import requests
from moorage.kube.client import KubeClient
from moorage.kube.resources import resource_for
from moorage.kube.timing import Timer
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.storage import PersistentVolume, PersistentVolumeClaim


class KubeApiPort(ApiPort):
    """`ApiPort` over a `KubeClient`, with what the informers know."""

    def __init__(self, client: KubeClient, state: ClusterState, timer: Timer) -> None:
        self._client = client
        self._state = state
        self._timer = timer

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the pod's binding."""
        await self._client.bind(pod.namespace, pod.name, pod.uid, node_name)

    async def update_persistent_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the claim reference and annotations."""
        reference = volume.spec.claim_ref
        spec = {"claimRef": None if reference is None else msgspec.to_builtins(reference)}
        body = {"metadata": _metadata(volume), "spec": spec}
        stored = await self._merge("PersistentVolume", "", volume.name, body)
        return msgspec.convert(stored, PersistentVolume)

    async def update_persistent_volume_claim(
        self, claim: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        """Write the annotations."""
        body = {"metadata": _metadata(claim)}
        stored = await self._merge("PersistentVolumeClaim", claim.namespace, claim.name, body)
        return msgspec.convert(stored, PersistentVolumeClaim)

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

    async def _merge(self, kind: str, namespace: str, name: str, body: Any) -> Any:
        return await self._client.patch(
            resource_for(kind), namespace, name, body, content_type=requests.MERGE
        )


def _metadata(obj: PersistentVolume | PersistentVolumeClaim) -> dict[str, Any]:
    # The version makes the API refuse the change if the object is not the one that was read.
    return {
        "resourceVersion": obj.metadata.resource_version,
        "annotations": obj.metadata.annotations,
    }
