"""The claims of a pod: which ones they are, whose, and whether their devices are ready.

Owns upstream's complaints about claims that are missing, on their way out, or somebody else's; for
whom a claim is reserved (for the pod's group, if group and pod name the claim alike); and when a
claim with binding conditions is ready, has failed, or has waited too long. Times are passed in.
"""

from collections.abc import Iterator
from datetime import datetime

from moorage.cluster.pod_groups import group_of
from moorage.model.devices import (
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from moorage.model.pod import Pod, PodResourceClaim
from moorage.model.pod_group import PodGroup
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.errors import ClaimError, DeviceFailedError

SUB_REQUEST_SCORE = 8
"""What the first alternative of a request scores: as many as a request may have."""


def claims_of(pod: Pod, tracker: ClaimTracker) -> list[ResourceClaim]:
    """The claims a pod uses, in the order of its spec; raises `ClaimError`."""
    if not pod.spec.resource_claims:
        return []
    return [claim for _, claim in named_claims(pod, tracker)]


def named_claims(pod: Pod, tracker: ClaimTracker) -> Iterator[tuple[str, ResourceClaim]]:
    """The claims by the names that the pod's spec gives them; raises `ClaimError`."""
    for reference in pod.spec.resource_claims:
        name, check_owner = _claim_name(pod, reference)
        if name is None:
            continue  # deliberately not created
        claim = tracker.get(pod.namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{claim.name}" is being deleted')
        if check_owner:
            _check_owner(pod, claim, accept_group=tracker.group_claims)
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


def _claim_name(owner: Pod | PodGroup, reference: PodResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, and whether it has to belong to the pod or the group that refers to it."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    single = isinstance(owner, Pod)
    subject = f'pod "{owner.key}"' if single else f"PodGroup {owner.key}"
    if reference.resource_claim_template_name is not None:
        for status in owner.status.resource_claim_statuses:
            if status.name == reference.name:
                return status.resource_claim_name, True
        raise ClaimError(f"{subject}: ResourceClaim not created yet")
    name = f'"{reference.name}"' if single else reference.name
    raise ClaimError(f"{subject}, spec.resourceClaim {name}: none of the supported fields are set")


def check_requests(claim: ResourceClaim, tracker: ClaimTracker) -> str | None:
    """Why a claim's requests cannot be met whatever the node; None if they might be."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            problem = _check_class(request.exactly.device_class_name, request.name, tracker)
            if problem is not None:
                return problem
        elif request.first_available:
            if not tracker.features.prioritized_list:
                return (
                    f"resource claim {claim.key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            for sub in request.first_available:
                full_name = f"{request.name}/{sub.name}"
                problem = _check_class(sub.device_class_name, full_name, tracker)
                if problem is not None:
                    return problem
        else:
            return f"resource claim {claim.key}, request {request.name}: unknown request type"
    return None


def _check_class(class_name: str, request: str, tracker: ClaimTracker) -> str | None:
    if not class_name:
        raise ValueError(f"request {request}: unsupported request type")
    if tracker.classes.get(class_name) is None:
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


_API_GROUP = "scheduling.k8s.io"
_RESOURCE = "podgroups"


def consumer(pod: Pod) -> ResourceClaimConsumerReference:
    """The pod as a claim's user."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def users_of_claims(pod: Pod, tracker: ClaimTracker) -> list[ResourceClaimConsumerReference]:
    """For whom each of the pod's claims is to be reserved; empty means for the pod."""
    if not tracker.group_claims:
        return []
    group = _group(pod, tracker)
    return [_user(pod, group, claim) for claim in pod.spec.resource_claims]


def reserved_for(pod: Pod, claim: ResourceClaim, tracker: ClaimTracker) -> bool:
    """May the pod use the claim, by itself or by way of its group?"""
    if claim.reserved_by(pod.uid):
        return True
    key = group_of(pod)
    return (
        tracker.group_claims
        and key is not None
        and any(
            (user.api_group, user.resource, user.name) == (_API_GROUP, _RESOURCE, key.name)
            for user in claim.status.reserved_for
        )
    )


def left_reserved(pod: Pod, tracker: ClaimTracker) -> ResourceClaim | None:
    """A claim that is reserved for the pod's group."""
    group = _group(pod, tracker)
    assert group is not None, "the pod has a group"
    for reference in group.spec.resource_claims:
        name, check_owner = _claim_name(group, reference)
        if name is None:
            continue
        claim = tracker.get(group.namespace, name)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{group.namespace}/{name}"')
        controller = claim.metadata.controller()
        if check_owner and (controller is None or controller.uid != group.metadata.uid):
            continue
        if claim.allocated and reserved_for(pod, claim, tracker):
            return claim
    return None


def _group(pod: Pod, tracker: ClaimTracker) -> PodGroup | None:
    key = group_of(pod)
    if key is None:
        return None
    group = tracker.groups.get(key.name, key.namespace)
    if group is None:
        raise ClaimError(f'podgroup.scheduling.k8s.io "{key.name}" not found')
    return group


def _user(
    pod: Pod, group: PodGroup | None, claim: PodResourceClaim
) -> ResourceClaimConsumerReference:
    for own in group.spec.resource_claims if group is not None else ():
        if (own.name, own.resource_claim_name, own.resource_claim_template_name) == (
            claim.name,
            claim.resource_claim_name,
            claim.resource_claim_template_name,
        ):
            assert group is not None, "it has claims"
            return ResourceClaimConsumerReference(
                api_group=_API_GROUP, resource=_RESOURCE, name=group.name, uid=group.metadata.uid
            )
    return consumer(pod)


BINDING_FAILED = "device binding failed"
BINDING_TIMEOUT = "device binding timeout"


def has_conditions(claim: ResourceClaim) -> bool:
    """Must anything be waited for?"""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def is_ready(claim: ResourceClaim) -> bool:
    """Do all devices report ready? Raises `DeviceFailedError` if one has failed."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(claim, result)
        if status is None:
            return False
        for condition in status.conditions:
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                raise DeviceFailedError(
                    f"{BINDING_FAILED}: claim={claim.name}, reason={condition.reason}, "
                    f'message="{condition.message}"'
                )
        met = {condition.type for condition in status.conditions if condition.status == "True"}
        if not met.issuperset(result.binding_conditions):
            return False
    return True


def timed_out(claim: ResourceClaim, now: float, limit: float) -> bool:
    """Has a claim with conditions been allocated for longer than `limit` seconds?"""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if not has_conditions(claim):
        return False
    try:
        allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
    except ValueError:
        return False
    return allocated + limit < now


def _status_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next(
        (
            status
            for status in claim.status.devices
            if (status.driver, status.pool, status.device) == wanted
        ),
        None,
    )
