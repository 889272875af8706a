"""One workload after another: run, timed, compared with upstream's threshold."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from moorage.benchmarks.perf.cases import PerfWorkload
from moorage.benchmarks.perf.claims import ClaimController
from moorage.benchmarks.perf.clusters import Cluster, gates_of, in_process, notes_on, through_api
from moorage.benchmarks.perf.executor import OperationExecutor
from moorage.benchmarks.perf.throughput import Throughput
from moorage.benchmarks.pod_watch import PodWatch
from moorage.benchmarks.progress import Progress
from moorage.benchmarks.scheduler_command import SchedulerCommand
from moorage.config import FeatureGates
from moorage.errors import MoorageError, ProcessError

PASS, FAIL, UNMEASURED, BROKEN = "pass", "FAIL", "-", "not run"
_THROUGHPUT = "SchedulingThroughput"


class WorkloadResult(msgspec.Struct, frozen=True):
    """What a workload showed."""

    name: str
    threshold: float
    measured: list[Throughput] = []
    seconds: float = 0.0
    reason: str = ""
    """Why it was not run to its end."""
    notes: list[str] = []

    def verdict(self, measured: Throughput) -> str:
        """How a phase compares with the threshold, where there is one."""
        if not self.threshold:
            return UNMEASURED
        return PASS if measured.rate > self.threshold else FAIL

    @property
    def good(self) -> bool:
        """Did it run, and fast enough?"""
        return not self.reason and all(self.verdict(phase) != FAIL for phase in self.measured)


class Setting(msgspec.Struct, frozen=True):
    """Where workloads run, and how long they may wait for pods."""

    timeout: float = 600.0
    binaries: Path | None = None
    """Those of a control plane; without, everything is in process."""
    command: SchedulerCommand | None = None


async def run_workload(
    workload: PerfWorkload, setting: Setting, progress: Progress
) -> WorkloadResult:
    """Run one; what is wrong with it becomes its result."""
    started = time.monotonic()
    notes = notes_on(workload)
    selector = workload.selector
    if selector.name != _THROUGHPUT or selector.data_bucket != "Average":
        notes.append(f"its threshold is about {selector.name} {selector.data_bucket}: not compared")
    result = WorkloadResult(workload.name, workload.threshold, notes=notes)
    if notes and selector.name != _THROUGHPUT:
        result = msgspec.structs.replace(result, threshold=0.0)
    if workload.fault:
        return msgspec.structs.replace(result, reason=workload.fault)
    try:
        measured = await _measured(workload, setting, progress)
    except MoorageError as error:
        reason = str(error)
        if isinstance(error, ProcessError):
            reason += f": {error.log_end.splitlines()[-1]}"
        return msgspec.structs.replace(result, reason=reason)
    seconds = round(time.monotonic() - started, 1)
    return msgspec.structs.replace(result, measured=measured, seconds=seconds)


async def _measured(
    workload: PerfWorkload, setting: Setting, progress: Progress
) -> list[Throughput]:
    gates = gates_of(workload)
    async with (
        _cluster(workload, gates, setting) as cluster,
        PodWatch(cluster.client) as watch,
        _controllers(cluster, gates, watch) as claims,
    ):

        def check() -> None:
            cluster.check()
            claims.check()

        with progress.phase(workload.name, len(workload.operations)) as phase:
            executor = OperationExecutor(
                workload,
                cluster.client,
                watch,
                gates,
                timeout=setting.timeout,
                check=check,
                phase=phase,
            )
            return await executor.run()


def _cluster(
    workload: PerfWorkload, gates: FeatureGates, setting: Setting
) -> AbstractAsyncContextManager[Cluster]:
    if setting.binaries is None or setting.command is None:
        return in_process(workload, gates)
    return through_api(workload, gates, setting.binaries, setting.command)


@asynccontextmanager
async def _controllers(
    cluster: Cluster, gates: FeatureGates, watch: PodWatch
) -> AsyncIterator[ClaimController]:
    claims = ClaimController(cluster.client)
    if gates.enabled("DynamicResourceAllocation"):
        watch.on_change.append(claims.on_change)
    try:
        yield claims
    finally:
        await claims.close()


def data_items(results: list[WorkloadResult]) -> dict[str, Any]:
    """The results in the format of upstream's performance dashboard."""
    items = []
    for result in results:
        for phase in result.measured:
            data = {"Average": phase.rate}
            for percent in (50, 90, 95, 99):
                value = getattr(phase, f"p{percent}")
                if value is not None:
                    data[f"Perc{percent}"] = value
            if result.threshold:
                data["AverageThreshold"] = result.threshold
            labels = {"Metric": _THROUGHPUT, "Name": f"{result.name}/{phase.name}"}
            items.append({"data": data, "unit": "pods/s", "labels": labels})
    return {"version": "v1", "dataItems": items}
