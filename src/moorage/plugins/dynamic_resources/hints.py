"""Queueing hints: which changes may let a pod try again that was refused for its claims."""

from collections.abc import Sequence

from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    Subjects,
    on,
)
from moorage.model.devices import ResourceClaim
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claims import claim_names, claims_of
from moorage.plugins.errors import ClaimError

_CHANGED = ActionType.ADD | ActionType.UPDATE


def _claims_of_pod(pod: Pod) -> list[str]:
    """The claims that a pod is known to use; it waits for no claim that it does not name yet."""
    return [f"{pod.namespace}/{name}" for name in claim_names(pod)]


def _claim_of_event(old: ApiObject | None, new: ApiObject | None) -> tuple[str] | None:
    """The claim that changed; None where devices became free, which may help any pod."""
    if not isinstance(new, ResourceClaim):
        return None
    if isinstance(old, ResourceClaim) and old.allocated and not new.allocated:
        return None
    return (new.key,)


CLAIMS = Subjects(_claims_of_pod, _claim_of_event)
"""Pods wait by the thousand for claims of their own, and each of these changes a few times."""


def registrations(tracker: ClaimTracker) -> Sequence[EventRegistration]:
    """The events; deleted slices wake nobody, as upstream."""

    def after_claim(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        before = old if isinstance(old, ResourceClaim) else None
        if not isinstance(new, ResourceClaim):
            return before is None or before.allocated
        try:
            uids = {claim.metadata.uid for claim in claims_of(pod, tracker)}
        except ClaimError:
            return False
        if before is not None and before.allocated and not new.allocated:
            return True  # its devices are free, for whoever wants them
        return new.metadata.uid in uids and (before is None or before.status != new.status)

    def after_pod(pod: Pod, old: ApiObject | None, new: ApiObject | None) -> bool:
        if not isinstance(new, Pod):
            return True
        try:
            claims_of(new, tracker)
        except ClaimError:
            return False
        return True

    return (
        on(
            EventResource.NODE,
            ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE,
        ),
        on(EventResource.RESOURCE_CLAIM, _CHANGED | ActionType.DELETE, after_claim, CLAIMS),
        on(EventResource.TARGET_POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM, after_pod),
        on(EventResource.DEVICE_CLASS, _CHANGED),
        on(EventResource.RESOURCE_SLICE, _CHANGED),
    )
