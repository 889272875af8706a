"""Permit: plugins may hold a placed pod back (`waiting_pods`), or refuse it."""

from moorage import log_lines
from moorage.framework.guard import checked_permit_answer, guard
from moorage.framework.profile import Profile
from moorage.framework.reserving import refused
from moorage.framework.status import Code, Status
from moorage.framework.timing import SUCCESS, UNTIMED, WAIT, AttemptTimes, PointTime
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.pod import Pod

MAX_TIMEOUT_SECONDS = 15 * 60.0
ASKED_TO_WAIT = "one or more plugins asked to wait and no plugin rejected pod"


def permit(
    profile: Profile, pod: Pod, node_name: str, now: float, times: AttemptTimes = UNTIMED
) -> Status | WaitingPod | None:
    """Ask the Permit plugins: None lets the pod go on, a status refuses it."""
    with times.point("Permit") as point:
        answer = _permit(profile, pod, node_name, now, point)
        if isinstance(answer, Status):
            point.status = answer.code.value
        elif answer is not None:
            point.status = WAIT
    return answer


def _permit(
    profile: Profile, pod: Pod, node_name: str, now: float, point: PointTime
) -> Status | WaitingPod | None:
    deadlines: dict[str, tuple[float, float]] = {}
    message = ""
    for plugin in profile.permit:
        with guard(plugin, "Permit"):
            status, seconds = checked_permit_answer(plugin, plugin.permit(pod, node_name))
        point.ran(plugin.name, SUCCESS if status is None else status.code.value)
        if status is None:
            continue
        if status.code is not Code.WAIT:
            return refused(plugin, pod, status, "Permit")
        seconds = min(seconds, MAX_TIMEOUT_SECONDS)
        deadlines[plugin.name] = (now + seconds, seconds)
        message = ", ".join((*status.reasons, ASKED_TO_WAIT))
    if deadlines:
        log_lines.ASKED_TO_WAIT(pod)
    return WaitingPod(pod, node_name, deadlines, message) if deadlines else None
