"""Reserve and Permit: what plugins note about a placed pod, and whether they let it go on.

What Reserve plugins note is written and undone together. Permit plugins may hold a pod back
(`waiting_pods`). Either may refuse it.
"""

from moorage import log_lines
from moorage.framework.guard import (
    FAULTS,
    checked_permit_answer,
    checked_status,
    guard,
    log_surprise,
    surprise,
    wrong_answer,
)
from moorage.framework.plugin import Plugin
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import UNTIMED, WAIT, AttemptTimes
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod

MAX_TIMEOUT_SECONDS = 15 * 60.0
ASKED_TO_WAIT = "one or more plugins asked to wait and no plugin rejected pod"
_LINES = {
    "Reserve": (log_lines.RESERVE_REJECTED, log_lines.RESERVE_FAILED),
    "Permit": (log_lines.PERMIT_REJECTED, log_lines.PERMIT_FAILED),
}


def assumed(profile: Profile, pod: Pod, node_name: str) -> Pod:
    """The pod as Reserve plugins want it to count on its node."""
    for plugin in profile.reserve:
        try:
            answer = plugin.assumed(pod, node_name)
        except FAULTS as error:
            raise surprise(plugin, "Reserve", error) from error
        if not isinstance(answer, Pod):
            raise wrong_answer(plugin, "Reserve", answer, "a pod")
        pod = answer
    return pod


def reserve(
    profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED
) -> Status | None:
    """Ask every Reserve plugin; after a refusal the caller must `unreserve`."""
    with times.point("Reserve") as point:
        for plugin in profile.reserve:
            try:
                status = plugin.reserve(pod, node_name)
                if status is not None:
                    status = checked_status(plugin, "Reserve", status)
            except FAULTS as error:
                raise surprise(plugin, "Reserve", error) from error
            point.answered(plugin.name, status)
            if status is not None:
                point.status = status.code.value
                return _refused(plugin, pod, status, "Reserve")
    return None


def unreserve(profile: Profile, pod: Pod, node_name: str, times: AttemptTimes = UNTIMED) -> None:
    """Undo, in reverse order, whether or not a plugin's reserve was reached.

    A plugin that fails here must not keep the others from undoing theirs.
    """
    with times.point("Unreserve") as point:
        for plugin in reversed(profile.reserve):
            try:
                plugin.unreserve(pod, node_name)
            except FAULTS as error:
                log_surprise(plugin, "Unreserve", error, pod)
            point.ran(plugin.name)


def permit(
    profile: Profile, pod: Pod, node_name: str, now: float, times: AttemptTimes = UNTIMED
) -> Status | WaitingPod | None:
    """Ask the Permit plugins: None lets the pod go on, a status refuses it."""
    deadlines: dict[str, tuple[float, float]] = {}
    message = ""
    with times.point("Permit") as point:
        for plugin in profile.permit:
            with guard(plugin, "Permit"):
                status, seconds = checked_permit_answer(plugin, plugin.permit(pod, node_name))
            point.answered(plugin.name, status)
            if status is None:
                continue
            if status.code is not Code.WAIT:
                refusal = _refused(plugin, pod, status, "Permit")
                point.status = refusal.code.value
                return refusal
            seconds = min(seconds, MAX_TIMEOUT_SECONDS)
            deadlines[plugin.name] = (now + seconds, seconds)
            message = ", ".join((*status.reasons, ASKED_TO_WAIT))
            point.status = WAIT
    if not deadlines:
        return None
    log_lines.ASKED_TO_WAIT(pod)
    return WaitingPod(pod, node_name, deadlines, message)


def _refused(plugin: Plugin, pod: Pod, status: Status, point: str) -> Status:
    """What Reserve or Permit make of a plugin's refusal, which is logged."""
    rejected, failed = _LINES[point]
    if status.code.rejected:
        rejected(pod, plugin.name, status.message)
        return Status(status.code, status.reasons, plugin.name)
    failed(status.message, plugin.name, pod)
    text = f'running {point} plugin "{plugin.name}": {status.message}'
    return Status(Code.ERROR, (text,), plugin.name)
