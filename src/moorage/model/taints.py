"""Taints, tolerations, and when one answers the other."""

from collections.abc import Iterable

from moorage.model.labels import parse_int64
from moorage.model.meta import Object

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class Taint(Object, frozen=True):
    """A node's mark that keeps pods away unless they tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def keeps_out(self) -> bool:
        """Does it forbid new pods (rather than merely discourage them)?"""
        return self.effect in (NO_SCHEDULE, NO_EXECUTE)


class Toleration(Object, frozen=True):
    """A pod's answer to taints."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint, *, comparisons: bool = False) -> bool:
        """Does it answer `taint`? `comparisons` turns on the operators `Lt` and `Gt`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator in ("", "Equal"):
            return self.value == taint.value
        if self.operator in ("Lt", "Gt") and comparisons:
            bound, marked = parse_int64(self.value), parse_int64(taint.value)
            if bound is None or marked is None:
                return False
            if (self.value, taint.value) != (str(bound), str(marked)):
                return False  # "+5", "007" and "-0" are not canonical and match nothing
            return marked < bound if self.operator == "Lt" else marked > bound
        return self.operator == "Exists"


UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparisons: bool) -> bool:
    """Does any of the tolerations answer the taint?"""
    return any(t.tolerates(taint, comparisons=comparisons) for t in tolerations)
