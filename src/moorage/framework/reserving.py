"""Reserve: plugins' own books about placed pods, kept and undone together."""

import logging

from moorage.errors import MoorageError
from moorage.framework.guard import surprise
from moorage.framework.metering import ERROR, SILENT, SUCCESS, Meter, Span
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


def assumed(profile: Profile, pod: Pod, node_name: str) -> Pod:
    """The pod as Reserve plugins want it to count on its node."""
    for plugin in profile.reserve:
        try:
            pod = plugin.assumed(pod, node_name)
        except MoorageError:
            raise
        except Exception as error:
            raise surprise(plugin, "Reserve", error) from error
    return pod


def reserve(profile: Profile, pod: Pod, node_name: str, meter: Meter = SILENT) -> Status | None:
    """Ask every Reserve plugin; after a refusal the caller must `unreserve`."""
    if meter.closely:
        with meter.point("Reserve", profile.name) as span:
            refusal = _reserve(profile, pod, node_name, span)
            if refusal is not None:
                span.status = refusal.code.value
        return refusal
    begun, end = meter.now(), ERROR
    try:
        refusal = _reserve(profile, pod, node_name)
        end = SUCCESS if refusal is None else refusal.code.value
    finally:
        meter.end("Reserve", profile.name, end, begun)
    return refusal


def _reserve(profile: Profile, pod: Pod, node_name: str, span: Span | None = None) -> Status | None:
    for plugin in profile.reserve:
        try:
            status = plugin.reserve(pod, node_name)
        except MoorageError:
            raise
        except Exception as error:
            raise surprise(plugin, "Reserve", error) from error
        if span is not None:
            span.ran(plugin.name, SUCCESS if status is None else status.code.value)
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
            except Exception:
                log.exception("plugin %s could not undo pod %s", plugin.name, pod.key)
            span.ran(plugin.name)
