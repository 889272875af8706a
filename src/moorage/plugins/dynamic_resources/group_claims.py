"""Claims that belong to a pod group rather than to a pod (DRAWorkloadResourceClaims).

Owns for whom a claim is reserved: for the group, if group and pod name the claim alike. A pod does
not know its group's uid, so claims are compared with it by name.
"""

from collections.abc import Iterator

from moorage.cluster.pod_groups import group_of
from moorage.model.devices import ResourceClaim, ResourceClaimConsumerReference
from moorage.model.pod import Pod, PodResourceClaim
from moorage.model.pod_group import PodGroup, PodGroupResourceClaim
from moorage.plugins.dynamic_resources.books import DeviceBooks

_API_GROUP = "scheduling.k8s.io"
_RESOURCE = "podgroups"
_UNSUPPORTED = "none of the supported fields are set"


class GroupClaimError(Exception):
    """A group or one of its claims is not what it should be; the text is upstream's."""


def consumer(pod: Pod) -> ResourceClaimConsumerReference:
    """The pod as a claim's user."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)


def users_of_claims(pod: Pod, books: DeviceBooks) -> list[ResourceClaimConsumerReference]:
    """For whom each of the pod's claims is to be reserved; empty means for the pod."""
    if not books.group_claims:
        return []
    group = _group(pod, books)
    return [_user(pod, group, claim) for claim in pod.spec.resource_claims]


def reserved_for(pod: Pod, claim: ResourceClaim, books: DeviceBooks) -> bool:
    """May the pod use the claim, by itself or by way of its group?"""
    if claim.reserved_by(pod.uid):
        return True
    key = group_of(pod)
    return (
        books.group_claims
        and key is not None
        and any(
            (user.api_group, user.resource, user.name) == (_API_GROUP, _RESOURCE, key.name)
            for user in claim.status.reserved_for
        )
    )


def left_reserved(
    pod: Pod, books: DeviceBooks, trying: frozenset[str], scheduled: Iterator[tuple[Pod, str]]
) -> tuple[ResourceClaim, str] | None:
    """A claim that the pod's group holds although none of its pods has a place, and its uid.

    `trying` are the pods whose places are only being tried; they do not count.
    """
    if not books.group_claims or group_of(pod) is None:
        return None
    if any(other.uid not in trying for other, _ in scheduled):
        return None
    group = _group(pod, books)
    assert group is not None, "the pod has a group"
    for reference in group.spec.resource_claims:
        name, check_owner = _claim_name(group, reference)
        if name is None:
            continue
        claim = books.get(group.namespace, name)
        if claim is None:
            raise GroupClaimError(f'could not find ResourceClaim "{group.namespace}/{name}"')
        controller = claim.metadata.controller()
        if check_owner and (controller is None or controller.uid != group.metadata.uid):
            continue
        if claim.allocated and reserved_for(pod, claim, books):
            return claim, group.metadata.uid
    return None


def _group(pod: Pod, books: DeviceBooks) -> PodGroup | None:
    key = group_of(pod)
    if key is None:
        return None
    group = books.groups.get(key.name, key.namespace)
    if group is None:
        raise GroupClaimError(f'podgroup.scheduling.k8s.io "{key.name}" not found')
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


def _claim_name(group: PodGroup, reference: PodGroupResourceClaim) -> tuple[str | None, bool]:
    """The claim's name, and whether it has to belong to the group."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is None:
        raise GroupClaimError(
            f"PodGroup {group.key}, spec.resourceClaim {reference.name}: {_UNSUPPORTED}"
        )
    for status in group.status.resource_claim_statuses:
        if status.name == reference.name:
            return status.resource_claim_name, True
    raise GroupClaimError(f"PodGroup {group.key}: ResourceClaim not created yet")
