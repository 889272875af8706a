"""/metrics/resources: what every pod asks for and may use at most.

Owns the two gauges of `kube_pod_resource_*`, worked out from the pods there are whenever somebody
asks, and kept by nobody.
"""

from collections.abc import Iterable

from moorage.metrics.exposition import render
from moorage.metrics.families import Gauge
from moorage.model.pod import Container, Pod
from moorage.model.pod_requests import container_totals
from moorage.model.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    ResourceList,
    Resources,
    is_hugepages,
    is_pod_level,
    to_milli,
)

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_EXPLANATION = (
    "broken down by pod. This shows the resource usage the scheduler and kubelet expect per pod "
    "for resources along with the unit for the resource if any."
)
_BYTES = frozenset((MEMORY, "storage", EPHEMERAL_STORAGE))


def pod_resource_families() -> tuple[Gauge, Gauge]:
    """Requests and limits, without any values."""
    requests = Gauge(
        "kube_pod_resource_request",
        f"Resources requested by workloads on the cluster, {_EXPLANATION}",
        _LABELS,
        "STABLE",
    )
    limits = Gauge(
        "kube_pod_resource_limit",
        f"Resources limit for workloads on the cluster, {_EXPLANATION}",
        _LABELS,
        "STABLE",
    )
    return requests, limits


def render_pod_resources(pods: Iterable[Pod]) -> tuple[str, bytes]:
    """The content type and the text for these pods."""
    requests, limits = pod_resource_families()
    for pod in pods:
        # One that was never on a node cannot have ended, whatever its phase says.
        if pod.spec.node_name and pod.finished:
            continue
        for family, amounts in ((requests, pod_requests(pod)), (limits, pod_limits(pod))):
            for resource, milli in amounts.items():
                if milli:
                    family.labels(*_labels(pod, resource)).set(milli / 1000)
    return render((requests, limits))


def pod_requests(pod: Pod) -> Resources:
    """What a pod asks for by its spec, in thousandths, overhead included."""
    total = container_totals(pod, _requests_of)
    _take_pod_level(total, None if pod.spec.resources is None else pod.spec.resources.requests)
    for name, value in to_milli(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + value
    return total


def pod_limits(pod: Pod) -> Resources:
    """What a pod may use, in thousandths; overhead comes on top of limits only where there are."""
    total = container_totals(pod, _limits_of)
    _take_pod_level(total, None if pod.spec.resources is None else pod.spec.resources.limits)
    for name, value in to_milli(pod.spec.overhead).items():
        if total.get(name):
            total[name] += value
    return total


def _take_pod_level(total: Resources, pod_level: ResourceList | None) -> None:
    for name, value in to_milli(pod_level).items():
        if is_pod_level(name):
            total[name] = value


def _requests_of(container: Container) -> Resources:
    return to_milli(container.resources.requests)


def _limits_of(container: Container) -> Resources:
    return to_milli(container.resources.limits)


def _labels(pod: Pod, resource: str) -> tuple[str, ...]:
    priority = "" if pod.spec.priority is None else str(pod.spec.priority)
    spec = pod.spec
    where = (pod.namespace, pod.name, spec.node_name, spec.scheduler_name)
    return (*where, priority, resource, _unit(resource))


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in _BYTES or is_hugepages(resource):
        return "bytes"
    return "integer" if resource.startswith("attachable-volumes-") else ""
