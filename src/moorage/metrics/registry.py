"""The metrics of a page: the families that a table beside this module defines, by name.

Owns the reading of the tables, what of them is shown (gates, disabled names, allow-lists) and the
counting of families. Who counts something names its family:

    registry.add("scheduler_schedule_attempts_total", result, profile)

Must not know any family by name but those about metrics.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Literal

import msgspec

from moorage.metrics.exposition import render
from moorage.metrics.families import (
    AnyFamily,
    Counter,
    Distribution,
    Gauge,
    Histogram,
    Stability,
    Value,
    exponential,
)
from moorage.tables import read_table

GateState = Callable[[str], bool]

_REGISTERED = "registered_metrics_total"
_DISABLED = "disabled_metrics_total"
_UNEXPECTED = "cardinality_enforcement_unexpected_categorizations_total"
_HIDDEN = "hidden_metrics_total"
_NEVER_RESET = (_REGISTERED, _DISABLED, _HIDDEN)


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["counter", "gauge", "histogram"]
    help: str = ""
    labels: tuple[str, ...] = ()
    stability: Stability = "ALPHA"
    gate: str = ""
    deprecated: str = ""
    buckets: list[float] = []
    exponential: tuple[float, float, int] | None = None


@cache
def _definitions(table: str) -> Mapping[str, _Definition]:
    return read_table("moorage.metrics", table, dict[str, _Definition])


class MetricsRegistry:
    """The families of a table; without its gate one is written to as any other, and not shown."""

    def __init__(self, table: str, enabled: GateState = lambda gate: True) -> None:
        self.families: dict[str, AnyFamily] = {}
        """Those that are shown, by name."""
        self._numbers: dict[str, Counter | Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._refreshers: list[Callable[[], None]] = []
        for name, one in _definitions(table).items():
            what = (name, one.help, one.labels, one.stability, one.deprecated)
            family: AnyFamily
            if one.kind == "histogram":
                bounds = exponential(*one.exponential) if one.exponential else one.buckets
                family = self._histograms[name] = Histogram(*what, buckets=bounds)
            else:
                family = Counter(*what) if one.kind == "counter" else Gauge(*what)
                self._numbers[name] = family
            if not one.gate or enabled(one.gate):
                self.families[name] = family

    def number(self, name: str, *labels: str) -> Value:
        """The value of a counter or gauge."""
        return self._numbers[name].labels(*labels)

    def distribution(self, name: str, *labels: str) -> Distribution:
        """The value of a histogram."""
        return self._histograms[name].labels(*labels)

    def add(self, name: str, *labels: str, by: float = 1) -> None:
        """Count on, or back."""
        self.number(name, *labels).value += by

    def set(self, name: str, value: float, *labels: str) -> None:
        """Say how things stand."""
        self.number(name, *labels).value = value

    def observe(self, name: str, value: float, *labels: str, times: int = 1) -> None:
        """Take note of a duration or a size."""
        self.distribution(name, *labels).observe(value, times)

    def hide_deprecated(self) -> None:
        """Show those no more that will be gone one day, and tell how many they are."""
        for family in [*self.families.values()]:
            if family.deprecated:
                self.hide(family.name)
                self.add(_HIDDEN)

    def count_families(self) -> None:
        """Tell of the families that are shown in the metrics about metrics."""
        for family in self.families.values():
            if family.stability:
                self.add(_REGISTERED, family.stability, family.deprecated)

    def disable(self, names: Iterable[str]) -> None:
        """Show these families no more, and tell how many that are."""
        for name in names:
            self.hide(name)
            self.add(_DISABLED)

    def hide(self, name: str) -> None:
        """Show a family no more, if there is one of this name."""
        self.families.pop(name, None)

    def limit(self, allowed: Mapping[str, str], unexpected: Callable[[], None]) -> None:
        """Allow only some values of `metric,label`; `unexpected` is told of others."""
        for key, values in allowed.items():
            metric, _, label = key.partition(",")
            if metric in self.families:
                self.families[metric].allow(label, frozenset(values.split(",")), unexpected)

    def count_unexpected(self) -> None:
        """A label has a value that is not allowed."""
        self.add(_UNEXPECTED)

    def before_render(self, refresh: Callable[[], None]) -> None:
        """Have gauges worked out whenever somebody is about to read them."""
        self._refreshers.append(refresh)

    def render(self) -> tuple[str, bytes]:
        """The content type and the text of everything."""
        for refresh in self._refreshers:
            refresh()
        return render(self.families.values())

    def reset(self) -> None:
        """Forget what was counted, but neither how things stand nor what is registered."""
        for name, family in self.families.items():
            if name not in _NEVER_RESET:
                family.reset()
