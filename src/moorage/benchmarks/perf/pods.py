"""Pods of an op list, with the volumes that some of them bring along."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from moorage.benchmarks.objects import create_one
from moorage.benchmarks.perf.templates import Template, plain
from moorage.kube.client import KubeClient
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for
from moorage.model.meta import Json


class PodTemplates(NamedTuple):
    """What pods are made from; without a claim's template they have no volumes."""

    pod: Template | None
    volume: Template | None = None
    claim: Template | None = None
    params: Mapping[str, Any] = {}
    batch: int = 1
    """How many pods made from the template have the same label `signature`."""

    def make(self, count: int, namespace: str) -> "list[NewPod]":
        """All pods, made before the first is created so that making them takes no time from it."""
        return [self._made(index, count, namespace) for index in range(count)]

    def _made(self, index: int, count: int, namespace: str) -> "NewPod":
        if self.pod is None:
            pod = plain("pod")
        else:
            pod = self.pod.make(index, count, self.params)
            labels = pod["metadata"].setdefault("labels", {})
            labels["signature"] = f"signature-label-{index // self.batch}"
        pod["metadata"]["namespace"] = namespace
        if self.claim is None or self.volume is None:
            return NewPod(pod)
        claim, volume = self.claim.make(), self.volume.make()
        claim_name, volume_name = f"pvc-{index}", f"{namespace}-vol-{index}"
        claim.setdefault("metadata", {}).update(name=claim_name, namespace=namespace)
        claim["spec"]["volumeName"] = volume_name
        volume.setdefault("metadata", {})["name"] = volume_name
        spec = volume["spec"]
        if "csi" in spec:
            spec["csi"]["volumeHandle"] = volume_name
        elif "awsElasticBlockStore" in spec:
            spec["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": namespace,
            "name": claim_name,
        }
        used = {"name": "vol", "persistentVolumeClaim": {"claimName": claim_name}}
        pod["spec"]["volumes"] = [used]
        return NewPod(pod, claim, volume)


class NewPod(NamedTuple):
    """A pod to be created, and what has to be there first."""

    pod: Json
    claim: Json | None = None
    volume: Json | None = None

    async def create(self, client: KubeClient) -> None:
        for body in (self.claim, self.volume):
            if body is not None:
                await create_one(client, body)
                meta = body["metadata"]
                await client.patch(
                    resource_for(body["kind"]),
                    meta.get("namespace", ""),
                    meta["name"],
                    {"status": {"phase": "Bound"}},
                    content_type=MERGE,
                    subresource="status",
                )
        await create_one(client, self.pod)
