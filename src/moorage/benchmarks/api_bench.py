"""One scheduler drains pending pods at an API server: what is set up, measured and removed.

Owns the order of one run. What is created comes from the workloads of `bench engine`; comparing
runs is `comparison`'s part.
"""

import asyncio
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count, islice
from pathlib import Path

import msgspec

from moorage.benchmarks.objects import (
    RUN_LABEL,
    clean_up,
    create_all,
    create_namespace,
    delete_collection,
    in_flight,
)
from moorage.benchmarks.pod_watch import PodWatch, WatchedPod
from moorage.benchmarks.progress import Phase, Progress
from moorage.benchmarks.scheduler_command import SchedulerCommand
from moorage.benchmarks.workloads import WORKLOADS, Workload
from moorage.controlplane.processes import ChildProcess, Usage
from moorage.errors import ApiError, InputError
from moorage.kube import requests
from moorage.kube.access import Access
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request
from moorage.kube.resources import resource_for
from moorage.model.meta import Json

_RATE = 100_000.0
_IMAGE = "registry.k8s.io/pause:3.10"
_NOBODY = "nobody"
_FEWEST_RAW, _MOST_RAW = 200, 1000
_PRIORITY_CLASS = "moorage-bench"
_CHECK_SECONDS = 0.5
_CLEAN_UP_SECONDS = 300.0


class ApiLoad(msgspec.Struct, frozen=True):
    """What is asked of a scheduler."""

    nodes: int
    pods: int
    workload: str
    while_running: bool = False
    """Create the pods only when the scheduler is there."""
    timeout: float = 600.0
    existing_nodes: bool = False
    """The cluster may have nodes already."""
    bound: int = 0
    """Pods that are on nodes before the scheduler starts."""


class ApiMeasurement(msgspec.Struct, frozen=True):
    """What one run showed; times in seconds, latencies per pod in milliseconds."""

    scheduler: str
    pods: int
    pods_per_second: float
    """From the first binding seen to the last."""
    pods_per_second_from_start: float
    """From the start of the process to the last binding."""
    seconds_to_first_binding: float
    cpu_seconds: float
    cpu_ms_per_pod: float
    peak_rss_mib: float
    latency_ms_p50: float
    latency_ms_p90: float
    latency_ms_p99: float
    raw_bindings_per_second: float
    share_of_raw: float
    bound_at: list[float]
    """When each pod was bound, since the start of the process, in order."""


async def measure_api(
    access: Access,
    kubeconfig: Path,
    command: SchedulerCommand,
    load: ApiLoad,
    progress: Progress,
    *,
    disposable: bool = False,
) -> ApiMeasurement:
    """Fill the cluster, let the scheduler at it, and empty it again unless it is thrown away."""
    async with KubeClient(access, qps=_RATE, burst=int(_RATE)) as client:
        await _check_cluster(client, load)
        async with _stage(client, load, progress, disposable) as (stage, folder):
            await stage.create_nodes()
            raw = await stage.raw_rate()
            await stage.create_others()
            if load.bound:
                await stage.create_bound_pods()
            return await _drain(stage, command, kubeconfig, folder, raw)


async def _check_cluster(client: KubeClient, load: ApiLoad) -> None:
    await client.send(Request("GET", "/version"))
    nodes = await client.page(requests.list_(resource_for("Node"), limit=1))
    if nodes.items and not load.existing_nodes:
        raise InputError(
            f"the cluster at {client.access.address} has nodes already, on which the benchmark's "
            "pods would land: give --with-existing-nodes if that is meant"
        )


@asynccontextmanager
async def _stage(
    client: KubeClient, load: ApiLoad, progress: Progress, disposable: bool
) -> AsyncIterator[tuple["_Stage", Path]]:
    stage = _Stage(client, load, progress)
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
        await create_namespace(client, stage.namespace)
        try:
            yield stage, Path(name)
        finally:
            if not disposable:
                await _clean_up(stage)


async def _clean_up(stage: "_Stage") -> None:
    """Remove what was made; what cannot be removed is told, but hides no earlier failure."""
    try:
        with stage.progress.phase("cleaned up"):
            async with asyncio.timeout(_CLEAN_UP_SECONDS):
                await clean_up(stage.client, stage.namespace, stage.run, stage.cluster_wide)
    except (TimeoutError, ApiError) as error:
        left = f"namespace {stage.namespace} and objects with the label {RUN_LABEL}={stage.run}"
        stage.progress.say(f"not everything was removed ({error}): look for {left}")


class _Stage:
    """The objects of one run."""

    def __init__(self, client: KubeClient, load: ApiLoad, progress: Progress) -> None:
        self.client = client
        self.load = load
        self.kind = WORKLOADS[load.workload]
        self.progress = progress
        self.run = secrets.token_hex(4)
        self.namespace = f"moorage-bench-{self.run}"
        self.cluster_wide: set[str] = set()
        self.created_at: dict[str, float] = {}
        """By the pod's uid."""

    async def create_nodes(self) -> None:
        """The nodes of the workload."""
        await self._create("nodes created", self.load.nodes, map(self.kind.node, count()))

    async def create_others(self) -> None:
        """Whatever the workload has beside its nodes."""
        before = list(_before(self.kind, self.load))
        if before:
            await self._create("other objects created", len(before), iter(before))

    async def create_pods(self) -> None:
        def created(pod: Json) -> None:
            self.created_at[pod["metadata"]["uid"]] = time.monotonic()

        await self._create("pods created", self.load.pods, map(self.kind.pod, count()), created)

    async def create_bound_pods(self) -> None:
        """Pods that the scheduler finds on their nodes, as many on each."""
        pods = (_bound_pod(index, self.load) for index in count())
        await self._create("bound pods created", self.load.bound, pods)

    async def _create(
        self,
        what: str,
        number: int,
        bodies: Iterator[Json],
        created: Callable[[Json], None] | None = None,
    ) -> None:
        with self.progress.phase(what, number) as phase:
            chosen = map(self._own, islice(bodies, number))
            await create_all(self.client, chosen, phase, created=created)

    async def raw_rate(self) -> float:
        """How many bindings the server takes when nobody decides anything: a scheduler's ceiling.

        Binds pods that no scheduler looks at, and removes them.
        """
        number = min(max(self.load.pods, _FEWEST_RAW), _MOST_RAW)
        bindings: list[Request] = []

        def created(pod: Json) -> None:
            meta = pod["metadata"]
            node: str = self.kind.node(len(bindings) % self.load.nodes)["metadata"]["name"]
            bindings.append(requests.bind(self.namespace, meta["name"], meta["uid"], node))

        with self.progress.phase("bare bindings", number) as phase:
            pods = (self._own(_raw_pod(index)) for index in range(number))
            await create_all(self.client, pods, created=created)
            started = time.monotonic()
            await in_flight(bindings, self.client.send)
            rate = number / (time.monotonic() - started)
            await delete_collection(self.client, "Pod", self.namespace, grace_seconds=0)
            phase.advance(number)
        return rate

    def _own(self, body: Json) -> Json:
        """An object of a workload as this run creates it."""
        metadata = dict(body["metadata"])
        for field in ("uid", "resourceVersion"):
            metadata.pop(field, None)
        body = {**body, "metadata": metadata}
        if resource_for(body["kind"]).namespaced:
            metadata["namespace"] = self.namespace
        else:
            metadata["labels"] = {**metadata.get("labels", {}), RUN_LABEL: self.run}
            self.cluster_wide.add(body["kind"])
        if body["kind"] == "Pod":
            body.pop("status", None)
            body["spec"] = _pod_spec(body["spec"])
        return body


def _pod_spec(spec: Json) -> Json:
    """A workload's pod as a real API server takes it, and lets it go at once."""
    containers = [{"image": _IMAGE, **container} for container in spec["containers"]]
    spec = {"terminationGracePeriodSeconds": 0, **spec, "containers": containers}
    if spec.pop("priority", 0):
        spec["priorityClassName"] = _PRIORITY_CLASS
    return spec


def _before(workload: Workload, load: ApiLoad) -> Iterator[Json]:
    priority = workload.pod(0)["spec"].get("priority")
    if priority:
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _PRIORITY_CLASS},
            "value": priority,
        }
    yield from workload.before(load.nodes, load.pods)


def _raw_pod(index: int) -> Json:
    body = WORKLOADS["basic"].pod(index)
    body["metadata"]["name"] = f"bare-{index:06d}"
    body["spec"]["schedulerName"] = _NOBODY
    return body


def _bound_pod(index: int, load: ApiLoad) -> Json:
    """A pod of the workload, of those that come after the pods to be bound."""
    kind = WORKLOADS[load.workload]
    body = kind.pod(load.pods + index)
    node_name = kind.node(index % load.nodes)["metadata"]["name"]
    return {**body, "spec": {**body["spec"], "nodeName": node_name}}


async def _drain(
    stage: _Stage, command: SchedulerCommand, kubeconfig: Path, folder: Path, raw: float
) -> ApiMeasurement:
    times: dict[str, float] = {}
    load = stage.load
    names = {stage.kind.pod(index)["metadata"]["name"] for index in range(load.pods)}

    def bound(pod: WatchedPod, now: float) -> None:
        # What is on a node before (victims to be) was not created as pending.
        if pod.metadata.name in names:
            times[pod.metadata.uid] = now

    async with PodWatch(stage.client, stage.namespace, only_bound=True) as watch:
        watch.on_bound.append(bound)
        if not load.while_running:
            await stage.create_pods()
            if times:
                raise InputError(
                    f"another scheduler is at work at {stage.client.access.address}: "
                    f"{len(times)} pods were bound before {command.name} was started"
                )
        process = command.start(kubeconfig, folder)
        try:
            with stage.progress.phase(f"bound by {command.name}", load.pods) as phase:
                if load.while_running:
                    await stage.create_pods()
                await _until_bound(watch, times, process, load, phase)
            usage = process.usage()
        finally:
            process.stop()
    return _summary(command.name, process.started, times, stage.created_at, usage, raw)


async def _until_bound(
    watch: PodWatch, times: dict[str, float], process: ChildProcess, load: ApiLoad, phase: Phase
) -> None:
    deadline = time.monotonic() + load.timeout
    while len(times) < load.pods:
        await watch.changed(_CHECK_SECONDS)
        phase.advance(len(times) - phase.done)
        process.check()
        if time.monotonic() > deadline:
            raise ApiError(
                0,
                "Timeout",
                f"{process.name} bound {len(times)} of {load.pods} pods within "
                f"{load.timeout:g} s (--timeout)",
            )
    phase.advance(len(times) - phase.done)


def _summary(
    name: str,
    started: float,
    times: dict[str, float],
    created_at: dict[str, float],
    usage: Usage,
    raw: float,
) -> ApiMeasurement:
    ordered = sorted(times.values())
    pods = len(ordered)
    latencies = sorted(now - max(created_at[uid], started) for uid, now in times.items())
    rate = pods / max(ordered[-1] - ordered[0], 1e-9)
    return ApiMeasurement(
        scheduler=name,
        pods=pods,
        pods_per_second=round(rate, 1),
        pods_per_second_from_start=round(pods / (ordered[-1] - started), 1),
        seconds_to_first_binding=round(ordered[0] - started, 3),
        cpu_seconds=round(usage.cpu_seconds, 2),
        cpu_ms_per_pod=round(usage.cpu_seconds * 1000 / pods, 3),
        peak_rss_mib=usage.peak_rss_mib,
        latency_ms_p50=percentile(latencies, 50),
        latency_ms_p90=percentile(latencies, 90),
        latency_ms_p99=percentile(latencies, 99),
        raw_bindings_per_second=round(raw, 1),
        share_of_raw=round(rate / raw, 3),
        bound_at=[round(now - started, 4) for now in ordered],
    )


def percentile(ordered: list[float], percent: int) -> float:
    """The nearest-rank percentile of sorted seconds, in milliseconds."""
    rank = -(-len(ordered) * percent // 100)
    return round(ordered[max(rank, 1) - 1] * 1000, 1)
