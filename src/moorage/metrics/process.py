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


class ProcessMetrics:
    """Read anew whenever somebody asks."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        if (_PROC / "self" / "stat").exists():
            registry.before_render(self._refresh)
        else:
            for name in [name for name in registry.families if name.startswith("process_")]:
                registry.hide(name)
        registry.before_render(self._refresh_python)

    def _refresh(self) -> None:
        stat = (_PROC / "self" / "stat").read_text()
        columns = stat[stat.rindex(")") + 2 :].split()
        received, sent = self._network()
        values = {
            "cpu_seconds_total": (int(columns[_UTIME]) + int(columns[_STIME])) / self._ticks,
            "network_receive_bytes_total": received,
            "network_transmit_bytes_total": sent,
            "max_fds": _limit(resource.RLIMIT_NOFILE),
            "open_fds": len(os.listdir(_PROC / "self" / "fd")),
            "resident_memory_bytes": int(columns[_RSS]) * self._page,
            "start_time_seconds": self._boot_time() + int(columns[_STARTTIME]) / self._ticks,
            "virtual_memory_bytes": int(columns[_VSIZE]),
            "virtual_memory_max_bytes": _limit(resource.RLIMIT_AS),
        }
        for name, value in values.items():
            self._registry.set(f"process_{name}", value)

    def _refresh_python(self) -> None:
        put = self._registry.set
        put("python_threads", threading.active_count())
        for generation, counts in enumerate(gc.get_stats()):
            put("python_gc_collections_total", counts["collections"], str(generation))
            put("python_gc_objects_collected_total", counts["collected"], str(generation))
            put("python_gc_objects_uncollectable_total", counts["uncollectable"], str(generation))

    def _boot_time(self) -> float:
        for line in (_PROC / "stat").read_text().splitlines():
            if line.startswith("btime "):
                return float(line.split()[1])
        return 0.0

    def _network(self) -> tuple[int, int]:
        """Bytes in and out of the whole network namespace, as Prometheus' clients count them."""
        try:
            lines = (_PROC / "self" / "net" / "netstat").read_text().splitlines()
        except OSError:
            return 0, 0
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            if names.startswith("IpExt:"):
                counts = dict(zip(names.split(), values.split(), strict=False))
                return int(counts.get("InOctets", 0)), int(counts.get("OutOctets", 0))
        return 0, 0


def _limit(which: int) -> float:
    soft, _ = resource.getrlimit(which)
    return _UNLIMITED if soft == resource.RLIM_INFINITY else soft


def set_constants(registry: MetricsRegistry, gates: FeatureGates) -> None:
    """Say what this process is and stays: builds, versions, feature gates."""
    python = platform.python_version()
    version = map(str, sys.version_info[:3])
    registry.set("python_info", 1, python, platform.python_implementation(), *version)
    registry.set("kubernetes_build_info", 1, *_build())
    registry.set("moorage_build_info", 1, __version__, python, sys.implementation.name)
    for one in gates.known():
        stage = "" if one.stage is Stage.GA else one.stage.value
        registry.set("kubernetes_feature_enabled", one.enabled, one.name, stage)
    emulation, oldest = gates.version.emulation, gates.version.min_compatibility
    kubernetes = KUBERNETES_VERSION.lstrip("v")
    registry.set("version_info", 1, "kube", kubernetes, str(emulation), str(oldest))


def _build() -> LabelValues:
    major, minor, *_ = KUBERNETES_VERSION.lstrip("v").split(".")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    # No Go and no commit stand behind it; empty values are what Prometheus takes for "none".
    return (
        *(major, minor, KUBERNETES_VERSION, "", "", "", "", sys.implementation.name),
        f"{platform.system().lower()}/{machine}",
    )


class OperationMetrics:
    """Reloads, shadow decisions and skipped objects; `now` tells the time of day."""

    def __init__(self, registry: MetricsRegistry, now: Callable[[], float] = time.time) -> None:
        self._registry = registry
        self._now = now
        self._note_reading()

    def count_skipped(self, by_kind: Callable[[], Mapping[str, int]]) -> None:
        """Count skipped objects with `by_kind` whenever the metrics are read."""

        def refresh() -> None:
            for kind, count in by_kind().items():
                self._registry.set("moorage_skipped_objects", count, kind)

        self._registry.before_render(refresh)

    def reloaded(self) -> None:
        self._registry.add("moorage_config_reloads_total", "success")
        self._note_reading()

    def reload_refused(self) -> None:
        self._registry.add("moorage_config_reloads_total", "error")

    def plugins_reloaded(self) -> None:
        """Changed files with plugins are in use."""
        self._registry.add("moorage_plugin_reloads_total", "success")

    def plugin_reload_refused(self) -> None:
        """A changed file with plugins was wrong, and the plugins in use stay."""
        self._registry.add("moorage_plugin_reloads_total", "error")

    def plugin_failed(self, plugin: str, point: str, kind: str) -> None:
        """A plugin raised, gave a wrong answer, or none in time."""
        self._registry.add("moorage_plugin_faults_total", plugin, point, kind)

    def shadow_compared(self, result: str) -> None:
        """A decision was compared with the real one."""
        self._registry.add("moorage_shadow_decisions_total", result)

    def _note_reading(self) -> None:
        self._registry.set("moorage_config_last_reload_success_timestamp_seconds", self._now())
