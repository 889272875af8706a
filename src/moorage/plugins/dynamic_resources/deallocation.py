"""PostFilter: which claim a pod that found no node gives back, so that it may succeed next time.

Owns the choice and upstream's words for it. Changes neither claims nor what is known of them: the
choice is handed back as work for the API.
"""

from collections.abc import Iterator

from moorage.cluster.pod_groups import group_of
from moorage.framework.plugin import Handle, PostFilterResult
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources.claim_tracker import ClaimTracker
from moorage.plugins.dynamic_resources.claim_writes import ClaimWrite, Deallocate, Delete, Release
from moorage.plugins.dynamic_resources.claims import left_reserved
from moorage.plugins.dynamic_resources.errors import GroupClaimError
from moorage.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from moorage.plugins.dynamic_resources.pod_state import PodState


def unschedulable(text: str) -> PostFilterResult:
    """Nothing was changed that the pod could use at once."""
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (text,)))


def deallocate(
    pod: Pod, state: PodState, tracker: ClaimTracker, handle: Handle
) -> tuple[PostFilterResult, ClaimWrite | None]:
    """A claim whose devices only this pod holds and that keep it from every node, if any."""
    made_up = state.extended.claim if state.extended is not None else None
    for index in sorted(state.unavailable):
        claim = state.claims[index]
        if claim is made_up:
            continue
        users = claim.status.reserved_for
        if not users or (len(users) == 1 and users[0].uid == pod.uid):
            return unschedulable("deallocation of ResourceClaim completed"), Deallocate(claim)
    if made_up is not None and made_up.name != IN_MEMORY_NAME:
        return unschedulable("deletion of ResourceClaim completed"), Delete(made_up)
    return _release_for_group(pod, tracker, handle)


def _release_for_group(
    pod: Pod, tracker: ClaimTracker, handle: Handle
) -> tuple[PostFilterResult, Release | None]:
    """Take a claim back from a group that came to nothing, so that it can be given up."""
    key = group_of(pod)
    known = None if key is None else handle.groups.get(key)
    scheduled: Iterator[tuple[Pod, str]] = iter(()) if known is None else known.scheduled
    try:
        found = left_reserved(pod, tracker, handle.members.trying, scheduled)
    except GroupClaimError as error:
        return PostFilterResult(Status(Code.ERROR, (str(error),))), None
    if found is None:
        return unschedulable("still not schedulable"), None
    text = "ResourceClaim unreserved for PodGroup"
    return PostFilterResult(Status(Code.UNRESOLVABLE, (text,))), Release(*found)
