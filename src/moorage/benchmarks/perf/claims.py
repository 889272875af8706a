"""What upstream's benchmark has controllers for: claims made from templates, and let go again.

Also finds devices for claims that no pod uses (`allocResourceClaims`), with Moorage's own
allocator on a copy of the cluster. Claims that pods share are not released here: no op list
deletes pods that have any.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec

from moorage.benchmarks.objects import resource_of
from moorage.benchmarks.pod_watch import WatchedPod
from moorage.config import FeatureGates, default_config
from moorage.engine.decisions import Bind
from moorage.errors import ApiError, InputError
from moorage.framework.reserving import reserve
from moorage.kube.api_port import status_body
from moorage.kube.client import KubeClient
from moorage.kube.decoding import Malformed, ObjectReader
from moorage.kube.requests import MERGE
from moorage.kube.resources import resource_for
from moorage.model.decode import decode_object
from moorage.model.devices import ResourceClaim, ResourceClaimStatus
from moorage.model.meta import Json
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.simulator.world import World

_API = "resource.k8s.io/v1"
_TEMPLATES = resource_of({"apiVersion": _API, "kind": "ResourceClaimTemplate"})
_CLAIMS = resource_for("ResourceClaim")
_GROUPS = resource_for("PodGroup")
_POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_WORKERS = 16
_KINDS = ("Node", "DeviceClass", "ResourceSlice", "ResourceClaim")


class _NamedClaim(msgspec.Struct, frozen=True, rename="camel"):
    """A claim as a pod or a pod group names it."""

    name: str
    resource_claim_template_name: str = ""


_GroupClaims = dict[_NamedClaim, str]
"""The objects that were made for the claims of a pod group."""


class ClaimController:
    """Makes the claims that templates ask for: of a pod, removed with it, or of its group."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._queue: asyncio.Queue[tuple[str, WatchedPod]] = asyncio.Queue()
        self._templates: dict[tuple[str, str], Json] = {}
        self._made: dict[str, list[str]] = {}
        self._groups: dict[tuple[str, str], asyncio.Task[_GroupClaims]] = {}
        self._seen: set[str] = set()
        self._workers = [asyncio.create_task(self._work()) for _ in range(_WORKERS)]

    def on_change(self, event: str, pod: WatchedPod) -> None:
        if not pod.spec.resource_claims:
            return
        uid = pod.metadata.uid
        if event == "DELETED" or uid not in self._seen:
            self._seen.add(uid)
            self._queue.put_nowait((event, pod))

    async def close(self) -> None:
        """Stop; whoever failed earlier says so now."""
        tasks = [*self._workers, *self._groups.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def check(self) -> None:
        """Raise what went wrong."""
        for worker in self._workers:
            if worker.done() and not worker.cancelled():
                error = worker.exception()
                if error is not None:
                    raise error

    async def _work(self) -> None:
        while True:
            event, pod = await self._queue.get()
            if event == "DELETED":
                await self._remove(pod)
            else:
                await self._make(pod)

    async def _make(self, pod: WatchedPod) -> None:
        meta = pod.metadata
        of_group = await self._of_group(pod)
        statuses = []
        for raw in pod.spec.resource_claims or ():
            wanted = msgspec.json.decode(raw, type=_NamedClaim)
            if wanted.resource_claim_template_name:
                name = of_group.get(wanted)
                if name is None:
                    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
                    name = await self._claim(meta.namespace, owner, wanted)
                    self._made.setdefault(meta.uid, []).append(name)
                statuses.append({"name": wanted.name, "resourceClaimName": name})
        if statuses:
            try:
                await self._client.patch_pod_status(
                    meta.namespace, meta.name, {"resourceClaimStatuses": statuses}
                )
            except ApiError as error:
                if not error.is_not_found:  # the pod may be gone by now
                    raise

    async def _of_group(self, pod: WatchedPod) -> _GroupClaims:
        """The claims of the pod's group, made when the first of its pods comes."""
        group = pod.spec.scheduling_group
        if group is None:
            return {}
        key = pod.metadata.namespace, group.pod_group_name
        if key not in self._groups:
            self._groups[key] = asyncio.create_task(self._make_for_group(*key))
        return await self._groups[key]

    async def _make_for_group(self, namespace: str, name: str) -> _GroupClaims:
        group = await self._client.get(_GROUPS, namespace, name)
        wanted = msgspec.convert(group["spec"].get("resourceClaims", []), list[_NamedClaim])
        owner = {key: group[key] for key in ("apiVersion", "kind")}
        owner |= {"name": name, "uid": group["metadata"]["uid"]}
        made = {
            claim: await self._claim(namespace, owner, claim)
            for claim in wanted
            if claim.resource_claim_template_name
        }
        if made:
            told = [{"name": one.name, "resourceClaimName": made[one]} for one in made]
            status = {"status": {"resourceClaimStatuses": told}}
            await self._client.patch(
                _GROUPS, namespace, name, status, content_type=MERGE, subresource="status"
            )
        return made

    async def _claim(self, namespace: str, owner: Json, wanted: _NamedClaim) -> str:
        key = namespace, wanted.resource_claim_template_name
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = await self._client.get(_TEMPLATES, *key)
        spec: Json = template["spec"]
        body = {
            "apiVersion": _API,
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": f"{owner['name']}-{wanted.name}-",
                "annotations": {_POD_CLAIM_NAME: wanted.name},
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": spec["spec"],
        }
        made = await self._client.create(_CLAIMS, namespace, body)
        name: str = made["metadata"]["name"]
        return name

    async def _remove(self, pod: WatchedPod) -> None:
        namespace = pod.metadata.namespace
        free: Json = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
        for name in self._made.pop(pod.metadata.uid, ()):
            try:
                await self._client.patch(
                    _CLAIMS, namespace, name, free, content_type=MERGE, subresource="status"
                )
                unprotected = {"metadata": {"finalizers": None}}
                await self._client.patch(_CLAIMS, namespace, name, unprotected, content_type=MERGE)
                await self._client.delete(_CLAIMS, namespace, name)
            except ApiError as error:
                if not (error.is_not_found or error.is_conflict):
                    raise


async def allocate_claims(
    client: KubeClient, namespace: str, gates: FeatureGates, random: Random
) -> None:
    """Give every claim of a namespace (of all, if empty) devices on a node picked at random."""
    world = World(default_config(gates), gates=gates)
    claims: list[ResourceClaim] = []
    nodes: list[str] = []
    for kind in _KINDS:
        resource = resource_for(kind)
        found = await client.list_all(resource, ObjectReader(resource).read)
        objects = [item for item in found.items if not isinstance(item, Malformed)]
        world.add_all(objects)
        nodes += [item.name for item in objects if isinstance(item, Node)]
        claims += [item for item in objects if isinstance(item, ResourceClaim)]
    for number, claim in enumerate(claims):
        if claim.status.allocation is None and namespace in ("", claim.namespace):
            random.shuffle(nodes)
            allocated = _allocated(world, claim, nodes)
            if allocated is None:
                raise InputError(
                    f"allocResourceClaims: no node has devices for claim {claim.key}, "
                    f"number {number + 1} of {len(claims)}"
                )
            body = {"status": status_body(allocated)}
            await client.patch(
                _CLAIMS,
                claim.namespace,
                claim.name,
                body,
                content_type=MERGE,
                subresource="status",
            )


def _allocated(
    world: World, claim: ResourceClaim, nodes: Sequence[str]
) -> ResourceClaimStatus | None:
    profile = world.profiles["default-scheduler"]
    for node_name in nodes:
        pod = _pod_with(claim, node_name)
        decision, _ = world.cycle.decide(profile, pod)
        if isinstance(decision, Bind) and reserve(profile, pod, node_name) is None:
            for plugin in profile.pre_bind:
                plugin.pre_bind_offline(pod)
            written = world.state.listers.of(ResourceClaim).get(claim.name, claim.namespace)
            if written is not None and written.status.allocation is not None:
                return ResourceClaimStatus(allocation=written.status.allocation)
    return None


def _pod_with(claim: ResourceClaim, node_name: str) -> Pod:
    """A pod that wants the claim on this very node, for the plugins to look at."""
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    term = {"matchFields": [field]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    name = f"for-{claim.name}"
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": claim.namespace, "uid": f"{name}-{node_name}"},
        "spec": {
            "containers": [{"name": "main"}],
            "affinity": {"nodeAffinity": required},
            "resourceClaims": [{"name": "claim", "resourceClaimName": claim.name}],
        },
    }
    decoded = decode_object(body, "allocResourceClaims")
    assert isinstance(decoded, Pod)
    return decoded
