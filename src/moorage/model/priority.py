"""Priority classes, and the priority a pod gets from one."""

from collections.abc import Iterable

from moorage.model.meta import ApiObject, Int32

SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PriorityClass(ApiObject, frozen=True, dict=True):
    """A named priority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


def default_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """The class for pods that name none: of several global defaults the lowest, as upstream."""
    return min((c for c in classes if c.global_default), key=lambda c: c.value, default=None)
