"""SchedulingThroughput as upstream measures it: bindings seen, sampled every second.

Upstream: kubernetes@v1.37.1 test/integration/scheduler_perf/util.go (`throughputCollector`). The
first sample is left out, and an interval without a binding is joined with the next one.
"""

import asyncio
import time
from collections.abc import Collection, Mapping

import msgspec

from moorage.benchmarks.pod_watch import PodWatch, WatchedPod

_SAMPLE_SECONDS = 1.0


class Throughput(msgspec.Struct, frozen=True):
    """Pods per second in one measured phase; None where it was over before two samples."""

    name: str
    scheduled: int
    seconds: float
    """From the start of the measurement to the last binding."""
    overall: float
    """Pods per second over all of that."""
    average: float | None = None
    p50: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None

    @property
    def rate(self) -> float:
        """What is compared with a threshold."""
        return self.overall if self.average is None else self.average


class Samples:
    """Rates between the moments at which somebody counted."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self._last: tuple[float, int] | None = None
        self._skipped = 0

    def take(self, now: float, count: int) -> None:
        """So many pods are scheduled by now."""
        if not count:
            return
        if self._last is None:
            self._last = now, count
            return
        then, before = self._last
        if count == before:
            self._skipped += 1
            return
        self.rates += [(count - before) / (now - then)] * (self._skipped + 1)
        self._last, self._skipped = (now, count), 0


class ThroughputCollector:
    """Counts the bindings of chosen pods until `stop`."""

    def __init__(
        self,
        watch: PodWatch,
        name: str,
        namespaces: Collection[str],
        labels: Mapping[str, str],
    ) -> None:
        self._watch = watch
        self._name = name
        self._namespaces = frozenset(namespaces)
        self._labels = labels
        self._started = time.monotonic()
        self._times: list[float] = []
        self._samples = Samples()
        self._task = asyncio.create_task(self._sample(), name="throughput")
        watch.on_bound.append(self._bound)

    def _bound(self, pod: WatchedPod, now: float) -> None:
        if pod.metadata.namespace in self._namespaces and pod.selected(self._labels):
            self._times.append(now)

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLE_SECONDS)
            self._samples.take(time.monotonic(), len(self._times))

    async def stop(self) -> Throughput:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._watch.on_bound.remove(self._bound)
        count = len(self._times)
        seconds = self._times[-1] - self._started if count else 0.0
        result = Throughput(
            name=self._name,
            scheduled=count,
            seconds=round(seconds, 3),
            overall=round(count / seconds, 1) if seconds else 0.0,
        )
        ordered = sorted(self._samples.rates)
        if not ordered:
            return result
        ranks = {
            f"p{percent}": round(ordered[-(-len(ordered) * percent // 100) - 1], 1)
            for percent in (50, 90, 95, 99)
        }
        average = round(sum(ordered) / len(ordered), 1)
        return msgspec.structs.replace(result, average=average, **ranks)
