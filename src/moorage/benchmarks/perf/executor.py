"""Carries out the operations of one workload, one after another, as upstream's executor does.

Upstream: kubernetes@v1.37.1 test/integration/scheduler_perf/executor.go. Works on any client; who
schedules is not its business.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import msgspec

from moorage.benchmarks.objects import (
    create_all,
    create_namespace,
    create_one,
    delete_collection,
    in_flight,
    resource_of,
)
from moorage.benchmarks.perf import operations as op
from moorage.benchmarks.perf.cases import PerfWorkload
from moorage.benchmarks.perf.claims import allocate_claims
from moorage.benchmarks.perf.nodes import make_nodes, with_allocatable
from moorage.benchmarks.perf.pods import NewPod, PodTemplates
from moorage.benchmarks.perf.templates import Template
from moorage.benchmarks.perf.throughput import Throughput, ThroughputCollector
from moorage.benchmarks.pod_watch import PodWatch
from moorage.benchmarks.progress import Phase
from moorage.config import FeatureGates
from moorage.errors import ApiError, InputError
from moorage.kube.client import KubeClient
from moorage.kube.requests import Request
from moorage.kube.resources import resource_for
from moorage.model.meta import Json

_CREATORS = 30
_POLL_SECONDS = 0.25


@dataclass(slots=True)
class OperationExecutor:
    """One workload on one cluster."""

    workload: PerfWorkload
    client: KubeClient
    watch: PodWatch
    gates: FeatureGates
    timeout: float
    check: Callable[[], None]
    """Complains if the cluster is not what it should be."""
    phase: Phase
    results: list[Throughput] = field(default_factory=list)
    _random: Random = field(default_factory=lambda: Random(0))
    _templates: dict[str, Template] = field(default_factory=dict)
    _awaited: dict[str, int] = field(default_factory=dict)
    """How many pods that nobody has waited for each namespace got."""
    _index: int = 0
    """Of the operation that is carried out."""
    _background: list[asyncio.Task[None]] = field(default_factory=list)
    _collector: ThroughputCollector | None = None

    async def run(self) -> list[Throughput]:
        """Everything, in order; what runs beside it ends with it."""
        self._read_templates()
        try:
            for index, operation in enumerate(self.workload.operations):
                self._index = index
                await _HANDLERS[type(operation)](self, operation)
                self.phase.advance()
        finally:
            for task in self._background:
                task.cancel()
            done = await asyncio.gather(*self._background, return_exceptions=True)
            if self._collector is not None:
                await self._collector.stop()
        for outcome in done:
            if isinstance(outcome, Exception):
                raise outcome
        return self.results

    # Nodes and namespaces

    async def _create_nodes(self, operation: op.CreateNodes) -> None:
        template = self._templates.get(operation.node_template_path)
        features = self.workload.workload.params.get("numNodeDeclaredFeatures", 0)
        made = make_nodes(operation, template, f"node-{self._index}-", self._random, features)
        await create_all(self.client, list(made))

    async def _create_namespaces(self, operation: op.CreateNamespaces) -> None:
        template = self._templates.get(operation.namespace_template_path)
        for index in range(operation.count):
            name = f"{operation.prefix}-{index}"
            body: Json = {"apiVersion": "v1", "kind": "Namespace"}
            if template is not None:
                body = template.make()
            body["metadata"] = {**body.get("metadata", {}), "name": name}
            await create_one(self.client, body)
            self._awaited.setdefault(name, 0)

    async def _need_namespace(self, name: str) -> None:
        if name not in self._awaited:
            await create_namespace(self.client, name)
            self._awaited[name] = 0

    # Pods

    async def _create_pods(self, operation: op.CreatePods) -> None:
        namespace = operation.namespace or f"namespace-{self._index}"
        await self._need_namespace(namespace)
        templates = self._pod_templates(operation)
        if operation.collect_metrics:
            self._measure(namespace, [namespace], {})
        if operation.steady_state:
            length = op.seconds(operation.duration, "duration")
            await self._steadily(namespace, templates, operation.count, length)
        else:
            await in_flight(templates.make(operation.count, namespace), self._create_pod, _CREATORS)
            if operation.skip_wait_to_completion:
                self._awaited[namespace] += operation.count
            else:
                await self._scheduled(namespace, operation.count, {})
        if operation.collect_metrics:
            await self._stop_collecting()

    async def _create_pod(self, pod: NewPod) -> None:
        await pod.create(self.client)

    def _pod_templates(self, operation: op.CreatePods) -> PodTemplates:
        default = self.workload.case.default_pod_template_path
        return PodTemplates(
            self._templates.get(operation.pod_template_path or default),
            self._templates.get(operation.persistent_volume_template_path),
            self._templates.get(operation.persistent_volume_claim_template_path),
            operation.template_params,
            operation.signature_batch_size or 1,
        )

    async def _steadily(
        self, namespace: str, templates: PodTemplates, count: int, length: float
    ) -> None:
        """Keep so many pods waiting for a while: as soon as one is bound, it goes for a new one."""
        end = time.monotonic() + length
        await in_flight(templates.make(count, namespace), self._create_pod, _CREATORS)
        gone: set[str] = set()
        while time.monotonic() < end:
            self.check()
            there = {pod.metadata.name: pod for pod in self.watch.pods(namespace)}
            gone &= there.keys()
            for name, pod in there.items():
                if pod.spec.node_name and name not in gone and time.monotonic() < end:
                    gone.add(name)
                    pods = resource_for("Pod")
                    await self.client.delete(pods, namespace, name, grace_seconds=0)
                    await self._create_pod(templates.make(1, namespace)[0])
            await self.watch.changed(_POLL_SECONDS)

    async def _delete_pods(self, operation: op.DeletePods) -> None:
        work = self._deleting(operation)
        if operation.skip_wait_to_completion:
            self._background.append(asyncio.create_task(work, name="deletion"))
        else:
            await work

    async def _deleting(self, operation: op.DeletePods) -> None:
        namespace = operation.namespace
        if not operation.delete_pods_per_second:
            labels = ",".join(f"{key}={value}" for key, value in operation.label_selector.items())
            await delete_collection(self.client, "Pod", namespace, labels=labels)
            return
        chosen = [
            pod.metadata.name
            for pod in self.watch.pods(namespace)
            if pod.selected(operation.label_selector)
        ]
        ticks = _ticks(operation.delete_pods_per_second)
        for name in chosen:
            await anext(ticks)
            await self.client.delete(resource_for("Pod"), namespace, name)

    # Waiting

    async def _barrier(self, operation: op.Barrier) -> None:
        namespaces = operation.namespaces or list(self._awaited)
        attempted = operation.stage_requirement == "Attempted"
        for namespace in namespaces:
            if namespace not in self._awaited:
                raise InputError(f"barrier: namespace {namespace} is not one of the workload's")
            wanted = self._awaited[namespace]
            await self._scheduled(namespace, wanted, operation.label_selector, attempted=attempted)
        if not attempted:
            for namespace in namespaces:
                self._awaited[namespace] = 0

    async def _scheduled(
        self, namespace: str, wanted: int, labels: Mapping[str, str], *, attempted: bool = False
    ) -> None:
        """Wait until so many pods are on nodes (or have at least been tried)."""
        deadline = time.monotonic() + self.timeout
        while (reached := self._reached(namespace, labels, attempted)) < wanted:
            self.check()
            await self.watch.changed(_POLL_SECONDS)
            if labels or attempted:  # counting them takes a while, so not at every change
                await asyncio.sleep(_POLL_SECONDS)
            if time.monotonic() > deadline:
                done = "attempted" if attempted else "scheduled"
                raise ApiError(
                    0,
                    "Timeout",
                    f"{reached} of {wanted} pods of namespace {namespace} were {done} within "
                    f"{self.timeout:g} s",
                )

    def _reached(self, namespace: str, labels: Mapping[str, str], attempted: bool) -> int:
        if not labels and not attempted:
            return self.watch.bound(namespace)
        return sum(
            pod.selected(labels) and bool(pod.spec.node_name or (attempted and pod.attempted))
            for pod in self.watch.pods(namespace)
        )

    # Anything else

    async def _create_any(self, operation: op.FromTemplate) -> None:
        if operation.namespace:
            await self._need_namespace(operation.namespace)
        bodies = [self._made(operation, index) for index in range(operation.count)]
        await create_all(self.client, bodies)

    async def _update_any(self, operation: op.UpdateAny) -> None:
        ticks = _ticks(operation.update_per_second)
        for index in range(operation.count):
            await anext(ticks)
            body = self._made(operation, index)
            await self._update(body, "/".join(operation.subresources))
            await self._update(body, "status")

    async def _update(self, body: Json, subresource: str) -> None:
        resource = resource_of(body)
        if resource.kind == "Node":
            with_allocatable(body)
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "")
        path = resource.item(namespace, metadata["name"], subresource)
        await self.client.send(Request("PUT", path, body=body))

    def _made(self, operation: op.FromTemplate, index: int) -> Json:
        template, namespace = self._templates[operation.template_path], operation.namespace
        body = template.make(index, operation.count, operation.template_params)
        resource = resource_of(body)
        if resource.namespaced != bool(namespace):
            given = f"namespace {namespace!r} is given" if namespace else "no namespace is given"
            kind = "namespaced" if resource.namespaced else "cluster-wide"
            raise InputError(f"{template.path}: {resource.kind} is {kind}, but {given}")
        if namespace:
            body.setdefault("metadata", {})["namespace"] = namespace
        return body

    async def _churn(self, operation: op.Churn) -> None:
        namespace = operation.namespace or f"namespace-{self._index}"
        await create_namespace(self.client, namespace)
        templates = [self._templates[path] for path in operation.template_paths]
        pause = (operation.interval_milliseconds or 500) / 1000
        work = self._churning(operation, templates, namespace, pause)
        self._background.append(asyncio.create_task(work, name="churn"))

    async def _churning(
        self, operation: op.Churn, templates: list[Template], namespace: str, pause: float
    ) -> None:
        recreate = operation.mode == "recreate"
        kept: dict[tuple[int, int], Json] = {}
        turn = 0
        while recreate or not operation.number or turn < operation.number:
            await asyncio.sleep(pause)
            for place, template in enumerate(templates):
                slot = place, turn % operation.number if recreate else turn
                old = kept.pop(slot, None)
                if old is None:
                    body = template.make()
                    if resource_of(body).namespaced:
                        body["metadata"]["namespace"] = namespace
                    made = await create_one(self.client, body)
                    if recreate:
                        kept[slot] = made
                else:
                    meta = old["metadata"]
                    within = meta.get("namespace", "")
                    await self.client.delete(resource_of(old), within, meta["name"])
            turn += 1

    async def _allocate_claims(self, operation: op.AllocResourceClaims) -> None:
        await allocate_claims(self.client, operation.namespace, self.gates, self._random)

    async def _sleep(self, operation: op.Sleep) -> None:
        await asyncio.sleep(op.seconds(operation.duration, "duration"))

    # Measuring

    async def _start_collecting(self, operation: op.StartCollectingMetrics) -> None:
        name = operation.name or operation.namespaces[0]
        self._measure(name, operation.namespaces, operation.label_selector)

    def _measure(self, name: str, namespaces: list[str], labels: Mapping[str, str]) -> None:
        if self._collector is not None:
            raise InputError(f"{self.workload.name}: two measurements overlap")
        self._collector = ThroughputCollector(self.watch, name, namespaces, labels)

    async def _stop_collecting(self, operation: op.Operation | None = None) -> None:
        del operation
        if self._collector is None:
            raise InputError(f"{self.workload.name}: no measurement was started")
        collector, self._collector = self._collector, None
        self.results.append(await collector.stop())

    def _read_templates(self) -> None:
        """All of them before anything is made, so that a missing one is noticed at once."""
        self._read_template(self.workload.case.default_pod_template_path, "defaultPodTemplatePath")
        for operation in self.workload.operations:
            for one in msgspec.structs.fields(operation):
                found = getattr(operation, one.name)
                if one.name.endswith("template_path"):
                    self._read_template(found, one.encode_name)
                elif one.name == "template_paths":
                    for path in found:
                        self._read_template(path, one.encode_name)

    def _read_template(self, path: str, asked_by: str) -> None:
        if path and path not in self._templates:
            where = f"{asked_by} of {self.workload.case.name} in {self.workload.file}"
            self._templates[path] = Template(self.workload.folder / path, where)


_HANDLERS: Mapping[type[op.Operation], Callable[..., Awaitable[None]]] = {
    op.AllocResourceClaims: OperationExecutor._allocate_claims,
    op.Barrier: OperationExecutor._barrier,
    op.Churn: OperationExecutor._churn,
    op.CreateAny: OperationExecutor._create_any,
    op.CreateNamespaces: OperationExecutor._create_namespaces,
    op.CreateNodes: OperationExecutor._create_nodes,
    op.CreatePodGroups: OperationExecutor._create_any,
    op.CreatePods: OperationExecutor._create_pods,
    op.CreateResourceClaims: OperationExecutor._create_any,
    op.DeletePods: OperationExecutor._delete_pods,
    op.Sleep: OperationExecutor._sleep,
    op.StartCollectingMetrics: OperationExecutor._start_collecting,
    op.StopCollectingMetrics: OperationExecutor._stop_collecting,
    op.UpdateAny: OperationExecutor._update_any,
}


async def _ticks(per_second: int) -> AsyncIterator[None]:
    """So many a second, made up for where one came late; without a number, no waiting."""
    due = time.monotonic()
    while True:
        if per_second:
            due += 1 / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        yield
