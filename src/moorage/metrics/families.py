"""Metric families and their values: counters, gauges and histograms, with or without labels.

Owns the storage, which is plain lists and dictionaries: one thread writes and reads it, so there is
nothing to lock, and a value that is asked for once can be kept. A family with labels is empty until
one of its label sets is touched, as in kube-scheduler. Writing the values out is `exposition`'s.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Stability = Literal["INTERNAL", "ALPHA", "BETA", "STABLE", ""]
"""How much may change, as upstream promises; empty for what is no metric of Kubernetes'."""

LabelValues = tuple[str, ...]

UNEXPECTED = "unexpected"
"""What a label value that is not on the allow-list is replaced by."""


class Value:
    """A number that is counted or set."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def clear(self) -> None:
        self.value = 0.0


_MANY = 32
"""From so many values on, arrays are quicker."""


class Distribution:
    """How many observations fell into each bucket, and their sum."""

    __slots__ = ("_bounds", "_edges", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._edges = np.array(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Take note of a value; a bound belongs to the bucket below it."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.sum += value * times

    def observe_all(self, values: Sequence[float] | NDArray[Any]) -> None:
        """The same for many values at once."""
        if len(values) < _MANY:
            for value in values:
                self.observe(float(value))
            return
        values = np.asarray(values)
        places = self._edges.searchsorted(values)
        added = np.bincount(places, minlength=len(self.counts)).tolist()
        self.counts = [known + more for known, more in zip(self.counts, added, strict=True)]
        self.sum += float(values.sum())

    @property
    def count(self) -> int:
        return sum(self.counts)

    def clear(self) -> None:
        self.counts = [0] * len(self.counts)
        self.sum = 0.0


ChildT = TypeVar("ChildT", Value, Distribution)


class Family(Generic[ChildT]):
    """All values of one name; `labels` gives the one of a label set."""

    kind: Literal["counter", "gauge", "histogram"]

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        stability: Stability = "ALPHA",
        deprecated: str = "",
    ) -> None:
        self.name = name
        if deprecated:
            help_text = f"(Deprecated since {deprecated}) {help_text}"
        self.help_text = f"[{stability}] {help_text}" if stability else help_text
        self.label_names = tuple(labels)
        self.stability = stability
        self.deprecated = deprecated
        self.children: dict[LabelValues, ChildT] = {}
        self._allowed: Mapping[int, frozenset[str]] = {}
        self._unexpected: Callable[[], None] = _nobody
        if not labels:
            self.labels()

    def labels(self, *values: str) -> ChildT:
        """The value of these label values, in the order of the names; made if it is new."""
        if self._allowed:
            values = self._constrained(values)
        child = self.children.get(values)
        if child is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has labels {self.label_names}, not {values}")
            child = self.children[values] = self._new_child()
        return child

    def allow(self, label: str, values: frozenset[str], unexpected: Callable[[], None]) -> None:
        """Let a label take only these values; others become `unexpected`, which is told."""
        if label in self.label_names:
            self._allowed = {**self._allowed, self.label_names.index(label): values}
            self._unexpected = unexpected

    def reset(self) -> None:
        if self.label_names:
            self.children.clear()
        else:
            self.labels().clear()

    def _new_child(self) -> ChildT:
        raise NotImplementedError

    def _constrained(self, values: LabelValues) -> LabelValues:
        constrained = list(values)
        for index, allowed in self._allowed.items():
            if constrained[index] not in allowed:
                constrained[index] = UNEXPECTED
                self._unexpected()
        return tuple(constrained)


class Counter(Family[Value]):
    """Numbers that only grow."""

    kind = "counter"

    def _new_child(self) -> Value:
        return Value()


class Gauge(Family[Value]):
    """Numbers that go up and down."""

    kind = "gauge"

    def reset(self) -> None:
        """A gauge says how things stand, and that they do not stop doing: nothing is forgotten."""

    def _new_child(self) -> Value:
        return Value()


class Histogram(Family[Distribution]):
    """Distributions over buckets, given by their upper bounds."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        help_text: str,
        labels: Sequence[str] = (),
        stability: Stability = "ALPHA",
        deprecated: str = "",
        *,
        buckets: Sequence[float],
    ) -> None:
        self.buckets = list(buckets)
        super().__init__(name, help_text, labels, stability, deprecated)

    def _new_child(self) -> Distribution:
        return Distribution(self.buckets)


AnyFamily = Counter | Gauge | Histogram


def exponential(start: float, factor: float, count: int) -> list[float]:
    """Bucket bounds that grow by a factor, multiplied step by step as upstream does."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return bounds


def _nobody() -> None:
    """Nobody counts unexpected values where there is no allow-list."""
