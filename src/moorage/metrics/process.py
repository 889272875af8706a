"""What this process takes from its machine, under the names that every Prometheus client uses.

Owns `process_*` (read from /proc where there is one, so only on Linux) and, in place of Go's
`go_*`, what Python's runtime can tell: `python_info` and the garbage collector's counts, under the
names of Prometheus' client for Python.
"""

import gc
import os
import platform
import resource
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from moorage.metrics.families import Counter, Gauge
from moorage.metrics.registry import MetricsRegistry

_PROC = Path("/proc")
# Where the columns of /proc/<pid>/stat stand behind the command's name, which may hold blanks.
_UTIME, _STIME, _STARTTIME, _VSIZE, _RSS = 11, 12, 19, 20, 21
_UNLIMITED = 2.0**64
START_TIME_HELP = "Start time of the process since unix epoch in seconds."


class ProcessMetrics:
    """Read anew whenever somebody asks."""

    def __init__(self, registry: MetricsRegistry, proc: Path = _PROC) -> None:
        self._proc = proc
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._cpu = Counter(
            "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", (), ""
        )
        self._received = Counter(
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network.",
            (),
            "",
        )
        self._sent = Counter(
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network.",
            (),
            "",
        )
        self._gauges = {
            name: Gauge(f"process_{name}", help_text, (), "")
            for name, help_text in (
                ("max_fds", "Maximum number of open file descriptors."),
                ("open_fds", "Number of open file descriptors."),
                ("resident_memory_bytes", "Resident memory size in bytes."),
                ("start_time_seconds", START_TIME_HELP),
                ("virtual_memory_bytes", "Virtual memory size in bytes."),
                (
                    "virtual_memory_max_bytes",
                    "Maximum amount of virtual memory available in bytes.",
                ),
            )
        }
        if (proc / "self" / "stat").exists():
            for counter in (self._cpu, self._received, self._sent):
                registry.register(counter)
            for gauge in self._gauges.values():
                registry.register(gauge)
            registry.before_render(self._refresh)
        self._python(registry)

    def _python(self, registry: MetricsRegistry) -> None:
        info = registry.register(
            Gauge(
                "python_info",
                "Python platform information",
                ("version", "implementation", "major", "minor", "patchlevel"),
                "",
            )
        )
        version = sys.version_info
        info.labels(
            platform.python_version(),
            platform.python_implementation(),
            *(str(version.major), str(version.minor), str(version.micro)),
        ).set(1)
        self._threads = registry.register(
            Gauge("python_threads", "Number of threads that Python knows.", (), "")
        )
        self._collections = registry.register(
            Counter(
                "python_gc_collections_total",
                "Number of times this generation was collected",
                ("generation",),
                "",
            )
        )
        self._collected = registry.register(
            Counter(
                "python_gc_objects_collected_total",
                "Objects collected during gc",
                ("generation",),
                "",
            )
        )
        self._uncollectable = registry.register(
            Counter(
                "python_gc_objects_uncollectable_total",
                "Uncollectable objects found during GC",
                ("generation",),
                "",
            )
        )
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
