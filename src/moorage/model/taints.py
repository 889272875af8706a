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
    def text(self) -> str:
        """As kubectl writes it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"

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
            bound, marked = _canonical(self.value), _canonical(taint.value)
            if bound is None or marked is None:
                return False
            return marked < bound if self.operator == "Lt" else marked > bound
        return self.operator == "Exists"


UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


def tolerated(taint: Taint, tolerations: Iterable[Toleration], *, comparisons: bool) -> bool:
    """Does any of the tolerations answer the taint?"""
    return any(t.tolerates(taint, comparisons=comparisons) for t in tolerations)


class TolerationIndex:
    """The same for many taints: each is looked up, however many tolerations there are."""

    __slots__ = ("_above", "_below", "_equal", "_exists")

    def __init__(self, tolerations: Iterable[Toleration], *, comparisons: bool) -> None:
        self._exists: set[tuple[str, str]] = set()
        self._equal: set[tuple[str, str, str]] = set()
        self._below: dict[tuple[str, str], int] = {}
        self._above: dict[tuple[str, str], int] = {}
        for one in tolerations:
            place = (one.effect, one.key)
            if one.operator in ("", "Equal"):
                self._equal.add((*place, one.value))
            elif one.operator == "Exists":
                self._exists.add(place)
            elif comparisons and (bound := _canonical(one.value)) is not None:
                # Of several bounds the most generous one decides.
                if one.operator == "Lt":
                    self._below[place] = max(bound, self._below.get(place, bound))
                elif one.operator == "Gt":
                    self._above[place] = min(bound, self._above.get(place, bound))

    def tolerates(self, taint: Taint) -> bool:
        """Does any of the tolerations answer the taint?"""
        # A toleration without an effect or a key answers all of them.
        for place in (
            (taint.effect, taint.key),
            (taint.effect, ""),
            ("", taint.key),
            ("", ""),
        ):
            if place in self._exists or (*place, taint.value) in self._equal:
                return True
            if (self._below or self._above) and self._compares(place, taint.value):
                return True
        return False

    def _compares(self, place: tuple[str, str], value: str) -> bool:
        marked = _canonical(value)
        if marked is None:
            return False
        below, above = self._below.get(place), self._above.get(place)
        return (below is not None and marked < below) or (above is not None and marked > above)


def _canonical(text: str) -> int | None:
    """A number; None for all others, and for "+5", "007" and "-0", which match nothing."""
    number = parse_int64(text)
    return number if number is not None and str(number) == text else None
