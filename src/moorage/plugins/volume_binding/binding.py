"""What was decided about volumes: assumed by Reserve, written by PreBind, undone by Unreserve.

Must not place anything: the node is given.
"""

from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from moorage.cluster.listers import Listers
from moorage.errors import ApiError, StateError, TranslationError
from moorage.framework.plugin import ApiPort
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
)
from moorage.plugins.errors import VolumeBindingError
from moorage.plugins.volume_binding.assume_cache import AssumeCache, VolumeCache
from moorage.plugins.volume_binding.search import StaticBinding
from moorage.plugins.volume_binding.topology import reachable

Kind = TypeVar("Kind", bound=ApiObject)


@dataclass(slots=True)
class PodVolumes:
    """What was decided for a pod's claims; objects are replaced by what the API made of them."""

    bindings: list[StaticBinding] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims to provision for."""


def assume(
    decided: PodVolumes,
    node_name: str,
    volumes: VolumeCache,
    claims: AssumeCache[PersistentVolumeClaim],
) -> PodVolumes:
    """Let the decision count for the pods that follow; raises `StateError` if it cannot."""
    assumed = PodVolumes()
    try:
        for binding in decided.bindings:
            volume = _bound(binding.volume, binding.claim)
            if volume is not binding.volume:
                volumes.assume(volume)
            assumed.bindings.append(StaticBinding(volume, binding.claim))
        for claim in decided.claims:
            chosen = _annotated(claim, SELECTED_NODE, node_name)
            claims.assume(chosen)
            assumed.claims.append(chosen)
    except StateError:
        revert(assumed, volumes, claims)
        raise
    return assumed


def revert(
    assumed: PodVolumes, volumes: VolumeCache, claims: AssumeCache[PersistentVolumeClaim]
) -> None:
    """Take the decision back, except for what the API has accepted."""
    for binding in assumed.bindings:
        volumes.restore(binding.volume)
    for claim in assumed.claims:
        claims.restore(claim)


def _bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with a reference to the claim; the same object if it has that already."""
    if not volume.bound_to(claim):
        volume = _annotated(volume, BOUND_BY_CONTROLLER, "yes", keep=True)
    reference = volume.spec.claim_ref
    named = (reference.namespace, reference.name, reference.uid) if reference is not None else None
    if named == (claim.namespace, claim.name, claim.metadata.uid):
        return volume
    wanted = ClaimReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )
    return msgspec.structs.replace(
        volume, spec=msgspec.structs.replace(volume.spec, claim_ref=wanted)
    )


def _annotated(obj: Kind, key: str, value: str, *, keep: bool = False) -> Kind:
    annotations = obj.metadata.annotations
    if keep and key in annotations:
        return obj
    metadata = msgspec.structs.replace(obj.metadata, annotations={**annotations, key: value})
    return msgspec.structs.replace(obj, metadata=metadata)


POLL_SECONDS = 1.0


async def bind_volumes(
    pod: Pod,
    node_name: str,
    volumes: PodVolumes,
    api: ApiPort,
    listers: Listers,
    timeout: float,
) -> None:
    """Write the decision and wait until it has come true; raises `VolumeBindingError`."""
    await _write(volumes, api)
    watch = _Watch(pod, node_name, api, listers)
    deadline = api.now() + timeout
    try:
        while True:
            await api.sleep(min(POLL_SECONDS, max(deadline - api.now(), 0.0)))
            if api.now() >= deadline:
                raise VolumeBindingError("context deadline exceeded")
            if watch.come_true(volumes):
                return
    except VolumeBindingError as error:
        raise VolumeBindingError(f"binding volumes: {error}") from error


async def _write(volumes: PodVolumes, api: ApiPort) -> None:
    """Write volumes, then claims. What was written stays: the volume controller goes on from it."""
    try:
        for i, binding in enumerate(volumes.bindings):
            written = await api.update_persistent_volume(binding.volume)
            volumes.bindings[i] = StaticBinding(written, binding.claim)
        for i, claim in enumerate(volumes.claims):
            volumes.claims[i] = await api.update_persistent_volume_claim(claim)
    except ApiError as error:
        raise VolumeBindingError(str(error)) from error


class _Watch:
    """Looks at the objects as the API shows them: assumptions about them may be other pods'."""

    def __init__(self, pod: Pod, node_name: str, api: ApiPort, listers: Listers) -> None:
        self._pod = pod
        self._node_name = node_name
        self._api = api
        self._csi_nodes = listers.of(CSINode)
        self._volumes = listers.of(PersistentVolume)
        self._claims = listers.of(PersistentVolumeClaim)

    def come_true(self, volumes: PodVolumes) -> bool:
        """Is everything bound? Raises `VolumeBindingError` when it cannot become so any more."""
        name = self._node_name
        node = self._api.node(name)
        if node is None:
            raise VolumeBindingError(f'failed to get node "{name}": node "{name}" not found')
        if not self._api.pod_exists(self._pod):
            raise VolumeBindingError(
                f'pod does not exist any more: pod "{self._pod.name}" not found'
            )
        return all(self._bound(binding, node) for binding in volumes.bindings) and all(
            self._provisioned(claim, node) for claim in volumes.claims
        )

    def _bound(self, binding: StaticBinding, node: Node) -> bool:
        name = binding.volume.name
        volume = self._volumes.get(name)
        if volume is None:
            raise VolumeBindingError(
                f'failed to check binding: persistentvolumes "{name}" not found'
            )
        claim = self._claim(binding.claim, "failed to check binding")
        if _older(volume, binding.volume):
            return False  # our own write has not come back yet
        self._check_reach(volume, node, "failed to translate pv to csi: ")
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise VolumeBindingError(f'ClaimRef got reset for pv "{name}"')
        return claim.fully_bound

    def _provisioned(self, written: PersistentVolumeClaim, node: Node) -> bool:
        claim = self._claim(written, "failed to check provisioning pvc")
        if _older(claim, written):
            return False
        if not claim.metadata.annotations:
            raise VolumeBindingError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.selected_node != self._node_name:
            # The provisioner gave up and asks for another node by taking the annotation away.
            raise VolumeBindingError(f'provisioning failed for PVC "{claim.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return False  # it may not have been seen yet; were it gone, the claim would follow
            self._check_reach(volume, node, "")
        return claim.fully_bound

    def _claim(self, wanted: PersistentVolumeClaim, context: str) -> PersistentVolumeClaim:
        claim = self._claims.get(wanted.name, wanted.namespace)
        if claim is None:
            raise VolumeBindingError(f'{context}: persistentvolumeclaims "{wanted.key}" not found')
        return claim

    def _check_reach(self, volume: PersistentVolume, node: Node, context: str) -> None:
        try:
            reached = reachable(volume, node.labels, self._csi_nodes.get(node.name))
        except TranslationError as error:
            raise VolumeBindingError(f"{context}could not translate pv: {error}") from error
        if not reached:
            raise VolumeBindingError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": '
                "no matching NodeSelectorTerms"
            )


def _older(seen: ApiObject, written: ApiObject) -> bool:
    return _version(seen) < _version(written)


def _version(obj: ApiObject) -> int:
    text = obj.metadata.resource_version
    return int(text) if text.isdecimal() else 0
