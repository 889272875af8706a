"""Reserve: plugins' own books about placed pods, kept and undone together."""

import logging

from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


def reserve(profile: Profile, pod: Pod, node_name: str) -> Status | None:
    """Ask every Reserve plugin; after a refusal the caller must `unreserve`."""
    for plugin in profile.reserve:
        with guard(plugin, "Reserve"):
            status = plugin.reserve(pod, node_name)
        if status is not None:
            return Status(status.code, status.reasons, plugin.name)
    return None


def unreserve(profile: Profile, pod: Pod, node_name: str) -> None:
    """Undo, in reverse order, whether or not a plugin's reserve was reached.

    A plugin that fails here must not keep the others from undoing theirs.
    """
    for plugin in reversed(profile.reserve):
        try:
            plugin.unreserve(pod, node_name)
        except Exception:
            log.exception("plugin %s could not undo pod %s", plugin.name, pod.key)
