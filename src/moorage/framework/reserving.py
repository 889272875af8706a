"""Reserve: plugins' own books about placed pods, kept and undone together."""

import logging

from moorage.errors import MoorageError
from moorage.framework.guard import FAULTS, checked_status, surprise, wrong_answer
from moorage.framework.metering import ERROR, SILENT, SUCCESS, Meter
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


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


def reserve(profile: Profile, pod: Pod, node_name: str, meter: Meter = SILENT) -> Status | None:
    """Ask every Reserve plugin; after a refusal the caller must `unreserve`."""
    now = meter.now  # see `RunningMeter`
    begun = now()
    ends = [begun] if meter.closely else None
    try:
        refusal = _reserve(profile, pod, node_name, meter, ends)
    except MoorageError:
        meter.end("Reserve", profile.name, ERROR, begun)
        raise
    if refusal is None:
        meter.reserved(profile.name, begun)
    else:
        meter.end("Reserve", profile.name, refusal.code.value, begun)
    if ends is not None:
        last = SUCCESS if refusal is None else refusal.code.value
        meter.each("Reserve", profile.reserve, ends, last)
    return refusal


def _reserve(
    profile: Profile, pod: Pod, node_name: str, meter: Meter, ends: list[float] | None
) -> Status | None:
    for plugin in profile.reserve:
        try:
            status = plugin.reserve(pod, node_name)
            if status is not None:
                status = checked_status(plugin, "Reserve", status)
        except FAULTS as error:
            raise surprise(plugin, "Reserve", error) from error
        if ends is not None:
            ends.append(meter.now())
        if status is not None:
            return Status(status.code, status.reasons, plugin.name)
    return None


def unreserve(profile: Profile, pod: Pod, node_name: str, meter: Meter = SILENT) -> None:
    """Undo, in reverse order, whether or not a plugin's reserve was reached.

    A plugin that fails here must not keep the others from undoing theirs.
    """
    with meter.point("Unreserve", profile.name) as span:
        for plugin in reversed(profile.reserve):
            try:
                plugin.unreserve(pod, node_name)
            except FAULTS:
                log.exception("plugin %s could not undo pod %s", plugin.name, pod.key)
            span.ran(plugin.name)
