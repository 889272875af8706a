"""Volumes and devices that no node reaches: what to create, to ask for less of, or to do without.

Claims of a pod cannot be changed, and what is in them is not ours to judge. So a claim, class or
volume that does not exist is made up from what the cluster has; otherwise all that can be said is
whose absence would help.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.listers import Listers
from moorage.explain.fixes.changes import (
    CREATE,
    RELAX,
    Change,
    Operation,
    containers_of,
    free_name,
    named,
    relaxed,
    remove,
    replace,
    subsets,
)
from moorage.explain.fixes.requests import lowered
from moorage.explain.fixes.sandbox import Sandbox
from moorage.explain.survey import Survey
from moorage.model.devices import (
    DEVICE_CLASS_PREFIX,
    EXACT_COUNT,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from moorage.model.meta import ObjectMeta, OwnerReference
from moorage.model.node import HOSTNAME_LABEL, Node
from moorage.model.node_selector import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.model.pod import Pod
from moorage.model.storage import (
    NO_PROVISIONER,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    LocalVolume,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeNodeAffinity,
    claims_of,
)
from moorage.model.volumes import (
    PersistentVolumeClaimSpec,
    Volume,
    VolumeResources,
)

VOLUME_BINDING = "VolumeBinding"
VOLUME_RESTRICTIONS = "VolumeRestrictions"
VOLUME_ZONE = "VolumeZone"
VOLUME_LIMITS = "NodeVolumeLimits"
VOLUMES = (VOLUME_BINDING, VOLUME_RESTRICTIONS, VOLUME_ZONE, VOLUME_LIMITS)

_SIZE = "1Gi"
_MOST_NODES = 3


def create_storage(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Make the claims and classes that are missing."""
    listers = sandbox.state.listers
    missing = (_missing(pod, volume, listers) for volume in pod.spec.volumes)
    # Several volumes of a pod may be one claim.
    claims = list({claim.name: claim for claim in missing if claim is not None}.values())
    if claims:
        names = [
            f"{claim.name} in the StorageClass {claim.spec.storage_class_name}" for claim in claims
        ]
        text = f"create the {named('PersistentVolumeClaim', names)}"
        yield Change(CREATE, text, 1.5, (VOLUME_BINDING,), objects=tuple(claims))
    classes = _missing_classes(pod, listers)
    if classes:
        text = f"create the {named('StorageClass', [one.name for one in classes], 'es')}"
        text += f" (provisioner {classes[0].provisioner}, {WAIT_FOR_FIRST_CONSUMER})"
        yield Change(CREATE, text, 1.5, (VOLUME_BINDING, VOLUME_ZONE), objects=tuple(classes))


def create_volumes(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Make volumes for claims of classes that nobody provisions for, on one of the nodes."""
    listers = sandbox.state.listers
    claims = []
    for used in claims_of(pod):
        claim = listers.of(PersistentVolumeClaim).get(used.name, pod.namespace)
        if claim is None or claim.spec.volume_name or claim.milli_request is None:
            continue
        storage_class = listers.of(StorageClass).get(claim.storage_class)
        if storage_class is not None and storage_class.provisioner == NO_PROVISIONER:
            claims.append(claim)
    if not claims:
        return
    for row in np.flatnonzero(rows)[:_MOST_NODES]:
        node = survey.nodes.node(int(row))
        if node.labels.get(HOSTNAME_LABEL):
            # Of a claim that a pod has twice, upstream wants to see two volumes.
            volumes: dict[str, PersistentVolume] = {}
            for claim in claims:
                made = _volume(claim, node, listers, volumes)
                volumes[made.name] = made
            names = [
                f"{claim.name} ({claim.spec.resources.requests['storage']} of class "
                f"{claim.storage_class})"
                for claim in claims
            ]
            plural = "s" if len(claims) > 1 else ""
            text = f"create PersistentVolume{plural} on {node.name} for the {named('claim', names)}"
            yield Change(
                CREATE,
                text,
                1.5 + 0.5 * len(claims),
                (VOLUME_BINDING,),
                objects=tuple(volumes.values()),
                topic=f"volumes for {' and '.join(names)}",
            )


def _volume(
    claim: PersistentVolumeClaim,
    node: Node,
    listers: Listers,
    others: Mapping[str, PersistentVolume],
) -> PersistentVolume:
    """A local volume that the claim can be bound to, beside `others`."""
    here = NodeSelectorRequirement(
        key=HOSTNAME_LABEL, operator="In", values=(node.labels[HOSTNAME_LABEL],)
    )
    terms = (NodeSelectorTerm(match_expressions=(here,)),)
    selector = claim.spec.selector
    name = f"{claim.namespace}-{claim.name}-on-{node.name}"
    return PersistentVolume(
        metadata=ObjectMeta(
            name=free_name(name, lambda n: others.get(n) or listers.of(PersistentVolume).get(n)),
            labels=dict(selector.match_labels) if selector is not None else {},
        ),
        api_version="v1",
        kind="PersistentVolume",
        spec=PersistentVolumeSpec(
            capacity={STORAGE: claim.spec.resources.requests[STORAGE]},
            access_modes=claim.spec.access_modes,
            storage_class_name=claim.storage_class,
            volume_mode=claim.spec.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            node_affinity=VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)),
            local=LocalVolume(path=f"/mnt/{claim.namespace}-{claim.name}"),
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )


def do_without_volumes(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """An emptyDir in the place of a volume: containers' mounts stay valid."""
    plugins = tuple(name for name in VOLUMES if name in survey.by_plugin)
    storage = [(i, volume) for i, volume in enumerate(pod.spec.volumes) if volume.is_storage]
    for chosen in subsets(storage):
        operations: list[Operation] = [
            replace({"name": volume.name, "emptyDir": {}}, "spec", "volumes", i)
            for i, volume in chosen
        ]
        names = " and ".join(_name(pod, volume) for _, volume in chosen)
        text = f"do without {names} (an emptyDir instead)"
        yield Change(RELAX, text, 2.0 + 0.7 * len(chosen), plugins, tuple(operations))


def _name(pod: Pod, volume: Volume) -> str:
    claim = volume.claim_name(pod.name)
    return f"the volume {volume.name}" + (f" of PersistentVolumeClaim {claim}" if claim else "")


def _missing(pod: Pod, volume: Volume, listers: Listers) -> PersistentVolumeClaim | None:
    """A claim for a volume that has none, if the cluster has a class for it."""
    name = volume.claim_name(pod.name)
    if not name or listers.of(PersistentVolumeClaim).get(name, pod.namespace) is not None:
        return None
    spec = PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",), resources=VolumeResources(requests={"storage": _SIZE})
    )
    owners: tuple[OwnerReference, ...] = ()
    if volume.ephemeral is not None:
        template = volume.ephemeral.volume_claim_template
        if template is None:
            return None
        spec = template.spec
        owners = (
            OwnerReference(
                api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True
            ),
        )
    return _volume_claim(pod, name, spec, owners, listers)


def _volume_claim(
    pod: Pod,
    name: str,
    spec: PersistentVolumeClaimSpec,
    owners: tuple[OwnerReference, ...],
    listers: Listers,
) -> PersistentVolumeClaim | None:
    if spec.storage_class_name is None:
        chosen = _usable_class(listers)
        if chosen is None:
            return None
        spec = msgspec.structs.replace(spec, storage_class_name=chosen.name)
    metadata = ObjectMeta(name=name, namespace=pod.namespace, owner_references=owners)
    return PersistentVolumeClaim(
        metadata=metadata, api_version="v1", kind="PersistentVolumeClaim", spec=spec
    )


def _usable_class(listers: Listers) -> StorageClass | None:
    """The default class, or any, that provisions volumes where pods go."""
    classes = [
        one
        for one in listers.of(StorageClass)
        if one.waits_for_first_consumer and one.provisioner != NO_PROVISIONER
    ]
    return min(classes, key=lambda one: (not one.is_default, one.name), default=None)


def _missing_classes(pod: Pod, listers: Listers) -> Sequence[StorageClass]:
    """Classes that the pod's claims name and that do not exist, like one that does."""
    model = _usable_class(listers)
    names: dict[str, None] = {}
    for volume in pod.spec.volumes:
        claim_name = volume.claim_name(pod.name)
        claim = listers.of(PersistentVolumeClaim).get(claim_name or "", pod.namespace)
        if claim is None or claim.spec.volume_name or not claim.storage_class:
            continue
        if listers.of(StorageClass).get(claim.storage_class) is None:
            names[claim.storage_class] = None
    if model is None:
        return ()
    return [
        StorageClass(
            metadata=ObjectMeta(name=name),
            api_version="storage.k8s.io/v1",
            kind="StorageClass",
            provisioner=model.provisioner,
            volume_binding_mode=WAIT_FOR_FIRST_CONSUMER,
        )
        for name in names
    ]


DEVICES = "DynamicResources"
_MOST_CLASSES = 4


def do_without_devices(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Ask for fewer devices as resources, or drop claims on them."""
    yield from _fewer(sandbox, pod)
    for chosen in subsets(range(len(pod.spec.resource_claims))):
        names = [pod.spec.resource_claims[place].name for place in chosen]
        text = f"do without the {named('resource claim', names)}"
        yield relaxed(text, 2.0 + 0.7 * len(names), DEVICES, *_unclaimed(pod, chosen))


def create_devices(sandbox: Sandbox, pod: Pod, survey: Survey, rows: Bools) -> Iterator[Change]:
    """Make the claims or the device classes that are missing."""
    listers = sandbox.state.listers
    missing = _missing_device_classes(pod, listers)
    if missing:
        text = f"create the {named('DeviceClass', missing, 'es')}"
        yield Change(CREATE, text, 1.5, (DEVICES,), objects=tuple(map(_device_class, missing)))
    names_of_claims = [
        reference.resource_claim_name
        for reference in pod.spec.resource_claims
        if reference.resource_claim_name is not None
        and listers.of(ResourceClaim).get(reference.resource_claim_name, pod.namespace) is None
    ]
    if not names_of_claims:
        return
    for device_class in sorted(listers.of(DeviceClass), key=lambda c: c.name)[:_MOST_CLASSES]:
        claims = [_device_claim(pod, name, device_class) for name in names_of_claims]
        text = f"create the {named('ResourceClaim', names_of_claims)}"
        text += f" (a device of class {device_class.name})"
        yield Change(CREATE, text, 1.5, (DEVICES,), objects=tuple(claims))


def _fewer(sandbox: Sandbox, pod: Pod) -> Iterator[Change]:
    """Extended resources that stand for devices: as many of them as can be had."""
    backed = {
        name
        for one in sandbox.state.listers.of(DeviceClass)
        for name in (one.spec.extended_resource_name, DEVICE_CLASS_PREFIX + one.name)
        if name
    }
    for name, amount in pod.requests.incoming.items():
        if name in backed:
            for fewer in sorted({amount - 1, amount // 2, 0}, reverse=True):
                if 0 <= fewer < amount:
                    change = lowered(pod, {name: fewer})
                    if change is not None:
                        yield msgspec.structs.replace(change, plugins=(DEVICES,))


def _unclaimed(pod: Pod, places: Sequence[int]) -> Iterator[Operation]:
    """Drop claims of the pod, and what its containers say of them."""
    names = {pod.spec.resource_claims[place].name for place in places}
    for steps, container in containers_of(pod):
        for i, used in reversed(list(enumerate(container.resources.claims))):
            if used.name in names:
                yield remove(*steps, "resources", "claims", i)
    for place in sorted(places, reverse=True):
        yield remove("spec", "resourceClaims", place)


def _missing_device_classes(pod: Pod, listers: Listers) -> list[str]:
    found: dict[str, None] = {}
    for reference in pod.spec.resource_claims:
        name = reference.resource_claim_name
        for status in pod.status.resource_claim_statuses:
            if status.name == reference.name:
                name = status.resource_claim_name
        claim = listers.of(ResourceClaim).get(name or "", pod.namespace)
        for request in claim.spec.devices.requests if claim is not None else ():
            wanted = [sub.device_class_name for sub in request.first_available]
            if request.exactly is not None:
                wanted.append(request.exactly.device_class_name)
            found.update((one, None) for one in wanted if listers.of(DeviceClass).get(one) is None)
    return list(found)


def _device_class(name: str) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name), api_version="resource.k8s.io/v1", kind="DeviceClass"
    )


def _device_claim(pod: Pod, name: str, device_class: DeviceClass) -> ResourceClaim:
    exactly = ExactDeviceRequest(
        device_class_name=device_class.name, allocation_mode=EXACT_COUNT, count=1
    )
    request = DeviceRequest(name="device", exactly=exactly)
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=pod.namespace),
        api_version="resource.k8s.io/v1",
        kind="ResourceClaim",
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )
