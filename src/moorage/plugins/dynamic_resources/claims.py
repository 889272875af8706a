"""The claims of a pod: which ones they are, and whether the pod may use them.

Owns upstream's complaints about claims that are missing, on their way out, or somebody else's.
"""

from collections.abc import Iterator

from moorage.cluster.pod_groups import group_of
from moorage.model.devices import ResourceClaim
from moorage.model.pod import Pod, PodResourceClaim
from moorage.plugins.dynamic_resources.books import DeviceBooks

SUB_REQUEST_SCORE = 8
"""What the first alternative of a request scores: as many as a request may have."""


class ClaimError(Exception):
    """The pod cannot be scheduled because of a claim; the text is upstream's."""


def claims_of(pod: Pod, books: DeviceBooks) -> list[ResourceClaim]:
    """The claims a pod uses, in the order of its spec; raises `ClaimError`."""
    if not pod.spec.resource_claims:
        return []
    return [claim for _, claim in named_claims(pod, books)]


def named_claims(pod: Pod, books: DeviceBooks) -> Iterator[tuple[str, ResourceClaim]]:
    """The claims by the names that the pod's spec gives them; raises `ClaimError`."""
    for reference in pod.spec.resource_claims:
        name, check_owner = _claim_name(pod, reference)
        if name is None:
            continue  # deliberately not created
        claim = books.get(pod.namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if check_owner:
            _check_owner(pod, claim, accept_group=books.group_claims)
        yield reference.name, claim


def claim_names(pod: Pod) -> Iterator[str]:
    """The names of a pod's claims as far as they are known, whether or not the claims exist."""
    for reference in pod.spec.resource_claims:
        try:
            name, _ = _claim_name(pod, reference)
        except ClaimError:
            continue
        if name is not None:
            yield name


def _check_owner(pod: Pod, claim: ResourceClaim, *, accept_group: bool) -> None:
    """The claim must have been made for the pod, or for its group if that is accepted."""
    controller = claim.metadata.controller()
    if controller is not None and controller.uid == pod.uid:
        return
    key, why = group_of(pod), "Pod is not owner"
    if accept_group and key is not None:
        if (
            controller is not None
            and (controller.kind, controller.name) == ("PodGroup", key.name)
            and controller.api_version.startswith("scheduling.k8s.io/")
        ):
            return
        why = f"neither Pod nor PodGroup {key.name} is the owner"
    raise ClaimError(f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({why})")


def _claim_name(pod: Pod, reference: PodResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, and whether it has to belong to the pod."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is not None:
        for status in pod.status.resource_claim_statuses:
            if status.name == reference.name:
                return status.resource_claim_name, True
        raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')
    raise ClaimError(
        f'pod "{pod.key}", spec.resourceClaim "{reference.name}": '
        "none of the supported fields are set"
    )


def check_requests(claim: ResourceClaim, books: DeviceBooks) -> str | None:
    """Why a claim's requests cannot be met whatever the node; None if they might be."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            problem = _check_class(request.exactly.device_class_name, request.name, books)
            if problem is not None:
                return problem
        elif request.first_available:
            if not books.features.prioritized_list:
                return (
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            for sub in request.first_available:
                full_name = f"{request.name}/{sub.name}"
                problem = _check_class(sub.device_class_name, full_name, books)
                if problem is not None:
                    return problem
        else:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
    return None


def _check_class(class_name: str, request: str, books: DeviceBooks) -> str | None:
    if not class_name:
        raise ValueError(f"request {request}: unsupported request type")
    if books.classes.get(class_name) is None:
        return f"request {request}: device class {class_name} does not exist"
    return None


def preference_score(claim: ResourceClaim, requests: set[str]) -> int:
    """How well a claim's alternatives were met: more for earlier ones."""
    return sum(
        SUB_REQUEST_SCORE - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in requests
    )
