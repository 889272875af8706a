"""Reserve: what plugins note about placed pods, written and undone together."""

import logging

from moorage import log_lines
from moorage.framework.guard import FAULTS, checked_status, surprise, wrong_answer
from moorage.framework.plugin import Plugin
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import SUCCESS, UNTIMED, AttemptTimes
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


_LINES = {
    "Reserve": (log_lines.RESERVE_REJECTED, log_lines.RESERVE_FAILED),
    "Permit": (log_lines.PERMIT_REJECTED, log_lines.PERMIT_FAILED),
}


def refused(plugin: Plugin, pod: Pod, status: Status, point: str) -> Status:
    """What Reserve or Permit make of a plugin's refusal, which is logged."""
    rejected, failed = _LINES[point]
    if status.code.rejected:
        rejected(pod, plugin.name, status.message)
        return Status(status.code, status.reasons, plugin.name)
    failed(status.message, plugin.name, pod)
    text = f'running {point} plugin "{plugin.name}": {status.message}'
    return Status(Code.ERROR, (text,), plugin.name)


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
            point.ran(plugin.name, SUCCESS if status is None else status.code.value)
            if status is not None:
                point.status = status.code.value
                return refused(plugin, pod, status, "Reserve")
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
                log.error(
                    "pod %s: %s", pod.key, surprise(plugin, "Unreserve", error), exc_info=True
                )
            point.ran(plugin.name)
