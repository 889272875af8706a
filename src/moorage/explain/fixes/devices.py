"""Devices that cannot be had: a claim to do without, fewer of them, or objects that are missing."""

from collections.abc import Iterator, Sequence

from moorage.cluster.columns import Bools
from moorage.cluster.listers import Listers
from moorage.explain.fixes.bench import Bench
from moorage.explain.fixes.changes import CREATE, RELAX, Change, subsets
from moorage.explain.fixes.obstacles import Obstacles
from moorage.explain.fixes.patches import Operation, remove
from moorage.explain.fixes.requests import lowered
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
from moorage.model.meta import ObjectMeta
from moorage.model.pod import Pod

PLUGIN = "DynamicResources"
_MOST_CLASSES = 4


def do_without_devices(
    bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools
) -> Iterator[Change]:
    """Ask for fewer devices as resources, or drop claims on them."""
    del obstacles
    if not rows.any():
        return
    yield from _fewer(bench, pod)
    for chosen in subsets(range(len(pod.spec.resource_claims))):
        names = [pod.spec.resource_claims[place].name for place in chosen]
        text = f"do without the resource claim{'s' if len(names) > 1 else ''} {' and '.join(names)}"
        yield Change(RELAX, text, 2.0 + 0.7 * len(names), (PLUGIN,), tuple(_unclaimed(pod, chosen)))


def create_devices(bench: Bench, pod: Pod, obstacles: Obstacles, rows: Bools) -> Iterator[Change]:
    """Make the claims or the device classes that are missing."""
    del obstacles
    if not rows.any():
        return
    listers = bench.state.listers
    missing = _missing_classes(pod, listers)
    if missing:
        names = " and ".join(missing)
        text = f"create the DeviceClass{'es' if len(missing) > 1 else ''} {names}"
        yield Change(CREATE, text, 1.5, (PLUGIN,), objects=tuple(map(_device_class, missing)))
    names_of_claims = [
        reference.resource_claim_name
        for reference in pod.spec.resource_claims
        if reference.resource_claim_name is not None
        and listers.of(ResourceClaim).get(reference.resource_claim_name, pod.namespace) is None
    ]
    if not names_of_claims:
        return
    for device_class in sorted(listers.of(DeviceClass), key=lambda c: c.name)[:_MOST_CLASSES]:
        claims = [_claim(pod, name, device_class) for name in names_of_claims]
        text = f"create the ResourceClaim{'s' if len(claims) > 1 else ''} "
        text += f"{' and '.join(names_of_claims)} (a device of class {device_class.name})"
        yield Change(CREATE, text, 1.5, (PLUGIN,), objects=tuple(claims))


def _fewer(bench: Bench, pod: Pod) -> Iterator[Change]:
    """Extended resources that stand for devices: as many of them as can be had."""
    backed = {
        name
        for one in bench.state.listers.of(DeviceClass)
        for name in (one.spec.extended_resource_name, DEVICE_CLASS_PREFIX + one.name)
        if name
    }
    for name, amount in pod.requests.incoming.items():
        if name in backed:
            for fewer in sorted({amount - 1, amount // 2, 0}, reverse=True):
                if 0 <= fewer < amount:
                    change = lowered(pod, {name: fewer})
                    if change is not None:
                        yield Change(change.kind, change.text, change.size, (PLUGIN,), change.patch)


def _unclaimed(pod: Pod, places: Sequence[int]) -> Iterator[Operation]:
    """Drop claims of the pod, and what its containers say of them."""
    names = {pod.spec.resource_claims[place].name for place in places}
    for field, containers in (
        ("containers", pod.spec.containers),
        ("initContainers", pod.spec.init_containers),
    ):
        for i, container in enumerate(containers):
            for j, used in reversed(list(enumerate(container.resources.claims))):
                if used.name in names:
                    yield remove("spec", field, i, "resources", "claims", j)
    for place in sorted(places, reverse=True):
        yield remove("spec", "resourceClaims", place)


def _missing_classes(pod: Pod, listers: Listers) -> list[str]:
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


def _claim(pod: Pod, name: str, device_class: DeviceClass) -> ResourceClaim:
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
