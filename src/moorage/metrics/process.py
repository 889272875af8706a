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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from moorage.config.feature_gates import FeatureGates
from moorage.config.gate_table import Stage
from moorage.metrics.families import Counter, Gauge, LabelValues, Stability
from moorage.metrics.registry import MetricsRegistry
from moorage.version import KUBERNETES_VERSION, __version__

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


_BUILD_LABELS = (
    *("major", "minor", "git_version", "git_commit", "git_tree_state", "build_date"),
    *("go_version", "compiler", "platform"),
)


def register_component(registry: MetricsRegistry, gates: FeatureGates) -> None:
    """Add what is constant from the start."""

    def constant(
        name: str,
        help_text: str,
        labels: Sequence[str],
        stability: Stability,
        values: Iterable[tuple[LabelValues, bool]],
    ) -> None:
        family = registry.register(Gauge(name, help_text, labels, stability))
        for label_values, value in values:
            family.labels(*label_values).set(1 if value else 0)

    constant(
        "kubernetes_build_info",
        "A metric with a constant '1' value labeled by major, minor, git version, git commit, "
        "git tree state, build date, Go version, and compiler from which Kubernetes was built, "
        "and platform on which it is running.",
        _BUILD_LABELS,
        "BETA",
        [(_build(), True)],
    )
    constant(
        "moorage_build_info",
        "A metric with a constant '1' value labeled by the version of Moorage and of Python.",
        ("version", "python_version", "implementation"),
        "",
        [((__version__, platform.python_version(), sys.implementation.name), True)],
    )
    constant(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        "BETA",
        (
            ((one.name, "" if one.stage is Stage.GA else one.stage.value), one.enabled)
            for one in gates.known()
        ),
    )
    effective = gates.version
    versions = (str(effective.emulation), str(effective.min_compatibility))
    constant(
        "version_info",
        "Provides the compatibility version info of the component. The component label is the "
        "name of the component, usually kube, but is relevant for aggregated-apiservers.",
        ("component", "binary", "emulation", "min_compat"),
        "ALPHA",
        [(("kube", KUBERNETES_VERSION.lstrip("v"), *versions), True)],
    )


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
        self._reloads = registry.register(
            Counter(
                "moorage_config_reloads_total",
                "Number of configuration reloads, by the result. 'error' means that the running "
                "configuration was kept.",
                ("result",),
                "",
            )
        )
        self._last_success = registry.register(
            Gauge(
                "moorage_config_last_reload_success_timestamp_seconds",
                "When the running configuration was read, in seconds since the epoch.",
                (),
                "",
            )
        )
        self._last_success.labels().set(now())
        self._shadowed = registry.register(
            Counter(
                "moorage_shadow_decisions_total",
                "Number of decisions compared with those of the scheduler that binds, by the "
                "result: 'agree', 'disagree', 'both_unschedulable', 'only_ours' (placed by this "
                "one only) or 'only_theirs' (placed by the other one only).",
                ("result",),
                "",
            )
        )

        self._skipped_by_kind: Callable[[], Mapping[str, int]] = dict
        self._skipped = registry.register(
            Gauge(
                "moorage_skipped_objects",
                "Number of objects that cannot be used at the moment, by kind; the log names them.",
                ("kind",),
                "",
            )
        )
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
