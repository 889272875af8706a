"""What this process is, what it takes from its machine, and what it does beyond kube-scheduler.

Owns `process_*` (read from /proc where there is one, so only on Linux), instead of Go's `go_*` what
Python's runtime can tell under the names of Prometheus' client for Python, and the constant metrics
that dashboards join others with: build, versions, feature gates. Major and minor are those of the
kube-scheduler whose behaviour this is. What is Moorage's own (its version, reloads, shadowing,
unusable objects) begins with `moorage_`, so that nothing of upstream's can collide with it.
"""

import gc
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from moorage.config.feature_gates import FeatureGates
from moorage.config.gate_table import Stage
from moorage.metrics.families import LabelValues
from moorage.metrics.registry import MetricsRegistry
from moorage.version import KUBERNETES_VERSION, __version__

_PROC = Path("/proc")
# Where the columns of /proc/<pid>/stat stand behind the command's name, which may hold blanks.
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = 11, 12, 19, 20, 21
_UNLIMITED = 2.0**64
_GAUGES = (
    *("max_fds", "open_fds", "resident_memory_bytes", "start_time_seconds"),
    *("virtual_memory_bytes", "virtual_memory_max_bytes"),
)


class ProcessMetrics:
    """Read anew whenever somebody asks."""

    def __init__(self, registry: MetricsRegistry, proc: Path = _PROC) -> None:
        self._proc = proc
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        if (proc / "self" / "stat").exists():
            self._cpu = registry.counter("process_cpu_seconds_total")
            self._received = registry.counter("process_network_receive_bytes_total")
            self._sent = registry.counter("process_network_transmit_bytes_total")
            self._gauges = {name: registry.gauge(f"process_{name}") for name in _GAUGES}
            registry.before_render(self._refresh)
        self._threads = registry.gauge("python_threads")
        self._collections = registry.counter("python_gc_collections_total")
        self._collected = registry.counter("python_gc_objects_collected_total")
        self._uncollectable = registry.counter("python_gc_objects_uncollectable_total")
        registry.before_render(self._refresh_python)

    def _refresh(self) -> None:
        stat = (self._proc / "self" / "stat").read_text()
        columns = stat[stat.rindex(")") + 2 :].split()
        self._cpu.labels().set((int(columns[_UTIME]) + int(columns[_STIME])) / self._ticks)
        received, sent = self._network()
        self._received.labels().set(received)
        self._sent.labels().set(sent)
        values = {
            "max_fds": _limit(resource.RLIMIT_NOFILE),
            "open_fds": len(os.listdir(self._proc / "self" / "fd")),
            "resident_memory_bytes": int(columns[_RSS]) * self._page,
            "start_time_seconds": self._boot_time() + int(columns[_STARTTIME]) / self._ticks,
            "virtual_memory_bytes": int(columns[_VSIZE]),
            "virtual_memory_max_bytes": _limit(resource.RLIMIT_AS),
        }
        for name, value in values.items():
            self._gauges[name].labels().set(value)

    def _refresh_python(self) -> None:
        self._threads.labels().set(threading.active_count())
        for generation, counts in enumerate(gc.get_stats()):
            label = str(generation)
            self._collections.labels(label).set(counts["collections"])
            self._collected.labels(label).set(counts["collected"])
            self._uncollectable.labels(label).set(counts["uncollectable"])

    def _boot_time(self) -> float:
        for line in (self._proc / "stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
        return 0.0

    def _network(self) -> tuple[int, int]:
        """Bytes in and out of the whole network namespace, as Prometheus' clients count them."""
        counts = self._network_counts()
        return counts.get("InOctets", 0), counts.get("OutOctets", 0)

    def _network_counts(self) -> Mapping[str, int]:
        try:
            lines = (self._proc / "self" / "net" / "netstat").read_text().splitlines()
        except OSError:
            return {}
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith("IpExt:"):
                numbers = map(int, values.split()[1:])
                return dict(zip(names.split()[1:], numbers, strict=False))
        return {}


def _limit(which: int) -> float:
    soft, _ = resource.getrlimit(which)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def register_component(registry: MetricsRegistry, gates: FeatureGates) -> None:
    """Add what is constant from the start."""
    python = platform.python_version()
    version = map(str, sys.version_info[:3])
    registry.gauge("python_info").labels(python, platform.python_implementation(), *version).set(1)
    registry.gauge("kubernetes_build_info").labels(*_build()).set(1)
    registry.gauge("moorage_build_info").labels(__version__, python, sys.implementation.name).set(1)
    features = registry.gauge("kubernetes_feature_enabled")
    for one in gates.known():
        stage = "" if one.stage is Stage.GA else one.stage.value
        features.labels(one.name, stage).set(1 if one.enabled else 0)
    effective = gates.version
    registry.gauge("version_info").labels(
        "kube",
        KUBERNETES_VERSION.lstrip("v"),
        str(effective.emulation),
        str(effective.min_compatibility),
    ).set(1)


def _build() -> LabelValues:
    major, minor, *_ = KUBERNETES_VERSION.lstrip("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    # No Go and no commit stand behind it; empty values are what Prometheus takes for "none".
    return (
        *(major, minor, KUBERNETES_VERSION, "", "", "", "", sys.implementation.name),
        f"{platform.system().lower()}/{machine}",
    )


RELOADED = "success"
REFUSED = "error"


class OperationMetrics:
    """Reloads and shadow decisions; `now` tells the time of day."""

    def __init__(self, registry: MetricsRegistry, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._reloads = registry.counter("moorage_config_reloads_total")
        self._last_success = registry.gauge("moorage_config_last_reload_success_timestamp_seconds")
        self._last_success.labels().set(now())
        self._shadowed = registry.counter("moorage_shadow_decisions_total")
        self._skipped = registry.gauge("moorage_skipped_objects")
        self._skipped_by_kind: Callable[[], Mapping[str, int]] = dict
        registry.before_render(self._refresh)

    def count_skipped(self, by_kind: Callable[[], Mapping[str, int]]) -> None:
        """Count skipped objects with `by_kind` whenever the metrics are read."""
        self._skipped_by_kind = by_kind

    def _refresh(self) -> None:
        for kind, count in self._skipped_by_kind().items():
            self._skipped.labels(kind).set(count)

    def reloaded(self) -> None:
        """A new configuration is in use."""
        self._reloads.labels(RELOADED).add()
        self._last_success.labels().set(self._now())

    def reload_refused(self) -> None:
        """A new configuration was wrong, and the old one stays."""
        self._reloads.labels(REFUSED).add()

    def shadow_compared(self, result: str) -> None:
        """A decision was compared with the real one."""
        self._shadowed.labels(result).add()
