"""The metrics of a process: which of them are shown, and the metrics about metrics.

Owns the reading of `metrics.yaml`, where families are defined, what the options do to them
(`--disabled-metrics`, `--allow-metric-labels` and its manifest) and the counting of families.
`--show-hidden-metrics-for-version` is taken, but no metric of 1.36 that a scheduler has is hidden,
so it shows nothing more. Must not know any family by name but its own.
"""

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, TypeVar

import msgspec

from moorage.errors import ConfigError
from moorage.metrics.exposition import render
from moorage.metrics.families import (
    AnyFamily,
    Counter,
    Gauge,
    Histogram,
    Stability,
    exponential,
)
from moorage.metrics.options import MetricsOptions, read_allow_lists
from moorage.tables import read_table

log = logging.getLogger(__name__)

FamilyT = TypeVar("FamilyT", bound=AnyFamily)
GateState = Callable[[str], bool]


class _Definition(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["counter", "gauge", "histogram"]
    help: str = ""
    labels: tuple[str, ...] = ()
    stability: Stability = "ALPHA"
    gate: str = ""
    buckets: list[float] = []
    exponential: tuple[float, float, int] | None = None


@cache
def _definitions() -> Mapping[str, _Definition]:
    return read_table("moorage.metrics", "metrics.yaml", dict[str, _Definition])


def _definition(name: str, kind: str) -> _Definition:
    found = _definitions()[name]
    assert found.kind == kind, f"{name} is a {found.kind}"
    return found


class MetricsRegistry:
    """Families by name; the same name twice is a mistake of the caller."""

    def __init__(
        self, options: MetricsOptions | None = None, enabled: GateState = lambda gate: True
    ) -> None:
        self._enabled = enabled
        self._families: dict[str, AnyFamily] = {}
        self._disabled: frozenset[str] = frozenset()
        self._allowed: dict[str, dict[str, frozenset[str]]] = {}
        self._refreshers: list[Callable[[], None]] = []
        self._registered: Counter | None = None
        self._disabled_total = Counter(
            "disabled_metrics_total", "The count of disabled metrics.", stability="BETA"
        )
        self._hidden_total = Counter(
            "hidden_metrics_total", "The count of hidden metrics.", stability="BETA"
        )
        self._unexpected = Counter(
            "cardinality_enforcement_unexpected_categorizations_total",
            "The count of unexpected categorizations during cardinality enforcement.",
        )
        if options is not None:
            self._apply(options)

    @property
    def families(self) -> Mapping[str, AnyFamily]:
        """Everything that is registered and not disabled."""
        return {name: one for name, one in self._families.items() if name not in self._disabled}

    def counter(self, name: str) -> Counter:
        """The counter that `metrics.yaml` defines under this name."""
        one = _definition(name, "counter")
        return self._gated(one.gate, Counter(name, one.help, one.labels, one.stability))

    def gauge(self, name: str) -> Gauge:
        """The gauge that `metrics.yaml` defines under this name."""
        one = _definition(name, "gauge")
        return self._gated(one.gate, Gauge(name, one.help, one.labels, one.stability))

    def histogram(self, name: str) -> Histogram:
        """The histogram that `metrics.yaml` defines under this name."""
        one = _definition(name, "histogram")
        bounds = exponential(*one.exponential) if one.exponential else one.buckets
        made = Histogram(name, one.help, one.labels, one.stability, buckets=bounds)
        return self._gated(one.gate, made)

    def _gated(self, gate: str, family: FamilyT) -> FamilyT:
        """Without its gate a family is written to like any other, and nobody sees it."""
        return family if gate and not self._enabled(gate) else self.register(family)

    def register(self, family: FamilyT) -> FamilyT:
        """Add a family and hand it back."""
        if family.name in self._families:
            raise ValueError(f"there are two metrics named {family.name}")
        self._families[family.name] = family
        for label, values in self._allowed.get(family.name, {}).items():
            family.allow(label, values, self._unexpected.add)
        if self._registered is not None and family.stability:
            self._registered.labels(family.stability, "").add()
        return family

    def register_self(self) -> None:
        """Add the metrics about metrics, and count what is registered from now on."""
        self._registered = Counter(
            "registered_metrics_total",
            "The count of registered metrics broken by stability level and deprecation version.",
            ("stability_level", "deprecated_version"),
            "BETA",
        )
        for family in (
            self._registered,
            self._disabled_total,
            self._hidden_total,
            self._unexpected,
        ):
            self.register(family)

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
        kept = (self._registered, self._disabled_total, self._hidden_total)
        for family in self._families.values():
            if family not in kept:
                family.reset()

    def _apply(self, options: MetricsOptions) -> None:
        names = [name for name in options.disabled_metrics if name]
        if len(names) < len(options.disabled_metrics):
            log.warning("Attempted to disable an empty metric name, ignoring.")
        self._disabled = frozenset(names)
        self._disabled_total.add(len(self._disabled))
        for key, values in self._allow_lists(options).items():
            metric, _, label = key.partition(",")
            self._allowed.setdefault(metric, {})[label] = frozenset(values.split(","))

    def _allow_lists(self, options: MetricsOptions) -> Mapping[str, str]:
        """From the flag, or from the file; as upstream, a bad file is told of and left out."""
        path = options.allow_metric_labels_manifest
        if options.allow_metric_labels or not path:
            return options.allow_metric_labels
        try:
            return read_allow_lists(path)
        except ConfigError as error:
            log.error("%s", error)
            return {}
