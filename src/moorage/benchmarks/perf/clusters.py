"""Where a workload runs: all in this process, or at a real API server with a scheduler process."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from moorage.apiserver.server import ApiServer
from moorage.benchmarks.objects import create_one
from moorage.benchmarks.perf.cases import PerfWorkload
from moorage.benchmarks.perf.direct_client import DirectClient
from moorage.benchmarks.scheduler_command import CLIENT_RATE, SchedulerCommand
from moorage.config import FeatureGates, KubeSchedulerConfiguration, default_config, load_config
from moorage.config.feature_gates import BINARY_VERSION, EffectiveVersion, gates_at
from moorage.config.gate_table import DEPENDENCIES
from moorage.controlplane.plane import control_plane, gates_flag
from moorage.controlplane.processes import ChildProcess
from moorage.engine.clock import WallClock
from moorage.errors import ApiError, InputError, ProcessError
from moorage.kube.access_discovery import user_access
from moorage.kube.client import KubeClient
from moorage.kube.event_recorder import EventRecorder
from moorage.kube.live import LiveScheduler, build_scheduler
from moorage.kube.resources import resource_for
from moorage.simulator.documents import parse_documents
from moorage.simulator.world import full_registry

_LOCKED = "NodeDeclaredFeatures"
_BATCHING = "OpportunisticBatching"
_UNLOCKED = BINARY_VERSION.before()
# Gates that change nothing outside a scheduler; an API server of another version may refuse them.
_SCHEDULERS_OWN = ("Scheduler", _BATCHING)
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05


_HISTORY_BYTES = 128 * 2**20
"""Enough for a gang of 10,000 pods that all fail at once: watchers must not lose count of them."""


class Cluster(NamedTuple):
    """A cluster with a scheduler at work, and how to see that it still is."""

    client: KubeClient
    check: Callable[[], None]


def settings_of(workload: PerfWorkload) -> tuple[dict[str, bool], EffectiveVersion]:
    """The gates of a workload and the version they are set in.

    As upstream has it: declared features can be switched off only in the version before they were
    locked, batches are off where a workload does not ask for them, and a gate that is switched off
    takes those with it that depend on it.
    """
    given = workload.feature_gates
    unlocked = given.get(_LOCKED) is False
    version = EffectiveVersion(_UNLOCKED, _UNLOCKED) if unlocked else EffectiveVersion()
    known = gates_at(version)
    lost = [name for name in DEPENDENCIES if known[name].default and _is_lost(name, given)]
    return {_BATCHING: False, **dict.fromkeys(lost, False), **given}, version


def _is_lost(gate: str, given: Mapping[str, bool]) -> bool:
    """Does a gate depend, over others perhaps, on one that is switched off?"""
    needed = DEPENDENCIES.get(gate, ())
    return any(given.get(other) is False or _is_lost(other, given) for other in needed)


def gates_of(workload: PerfWorkload) -> FeatureGates:
    """The same, checked."""
    return FeatureGates(*settings_of(workload))


def notes_on(workload: PerfWorkload) -> list[str]:
    """What differs from upstream's run."""
    notes = []
    if workload.workload.params.get("numNodeDeclaredFeatures"):
        notes.append(
            "upstream's test makes up features that pods need; here nodes declare them and no pod "
            "needs any"
        )
    return notes


def _configuration(workload: PerfWorkload, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """The scheduler's configuration."""
    written = _configuration_file(workload)
    return load_config(*written, gates) if written else default_config(gates)


def _configuration_file(workload: PerfWorkload) -> tuple[str, str] | None:
    """The text and the name of the file that the test case names."""
    named = workload.case.scheduler_config_path
    if not named:
        return None
    path = workload.folder / named
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except OSError as error:
        raise InputError(
            f"{path}, which schedulerConfigPath names, cannot be read: {error.strerror}"
        ) from error


@asynccontextmanager
async def in_process(workload: PerfWorkload, gates: FeatureGates) -> AsyncIterator[Cluster]:
    """The embedded API server and Moorage in one event loop, with no HTTP between them."""
    configuration = _configuration(workload, gates)
    server = ApiServer(history_bytes=_HISTORY_BYTES)
    # Upstream's benchmark does without the admission plugin, too.
    server.operations.admission.free_priorities = True
    await server.start()
    client = DirectClient(server)
    scheduler = build_scheduler(configuration, full_registry(), gates, WallClock())
    live = LiveScheduler(scheduler, client, EventRecorder(DirectClient(server)))
    work = asyncio.create_task(live.run(), name="scheduler")

    def check() -> None:
        if work.done():
            raise work.exception() or ApiError(0, "Ended", "the scheduler has ended")

    try:
        yield Cluster(client, check)
    finally:
        live.abandon()
        await asyncio.gather(work, return_exceptions=True)
        await server.stop()
        # The scheduler keeps its cluster out of collections; the next one must not inherit that.
        gc.unfreeze()
        gc.collect()


@asynccontextmanager
async def through_api(
    workload: PerfWorkload, gates: FeatureGates, binaries: Path, command: SchedulerCommand
) -> AsyncIterator[Cluster]:
    """A fresh etcd and kube-apiserver, and a scheduler as a process of its own."""
    settings, version = settings_of(workload)
    server_gates = {
        gate: on for gate, on in settings.items() if not gate.startswith(_SCHEDULERS_OWN)
    }
    emulated = f"--emulated-version={version.emulation}"
    flags = [f"--feature-gates={gates_flag(settings)}", emulated]
    _configuration(workload, gates)  # so that mistakes are told in our words
    written = _configuration_file(workload)
    given: Mapping[str, Any] = {}
    if written is not None:
        given = parse_documents(*written, is_json=False)[0]
    server_flags = {
        "feature_gates": gates_flag(server_gates),
        "emulated_version": version.emulation,
    }
    with control_plane(binaries, **server_flags) as plane:
        kubeconfig = plane.kubeconfig()
        access = user_access(str(kubeconfig))
        async with KubeClient(access, qps=CLIENT_RATE, burst=CLIENT_RATE) as client:
            process = command.start(kubeconfig, plane.folder, configuration=given, flags=flags)
            try:
                await _until_scheduling(client, process)
                yield Cluster(client, process.check)
            finally:
                process.stop()


async def _until_scheduling(client: KubeClient, process: ChildProcess) -> None:
    """Wait until the scheduler has tried a pod, so that its start is no part of what is measured.

    The cluster has no nodes yet, so the pod only shows that somebody looks.
    """
    pods = resource_for("Pod")
    container = {"name": "probe", "image": "registry.k8s.io/pause:3.10"}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "default"},
        "spec": spec,
    }
    await create_one(client, body)
    deadline = time.monotonic() + _START_SECONDS
    while not (await client.get(pods, "default", "probe"))["status"].get("conditions"):
        process.check()
        if time.monotonic() > deadline:
            what = f"{process.name} tried no pod within {_START_SECONDS:g} s of its start"
            raise ProcessError(what, process.tail())
        await asyncio.sleep(_POLL_SECONDS)
    await client.delete(pods, "default", "probe", grace_seconds=0)
