"""/metrics/resources: what every pod asks for and may use at most.

Owns the two gauges of `kube_pod_resource_*`, worked out from the pods there are whenever somebody
asks, and kept by nobody.
"""

from collections.abc import Iterable

from moorage.metrics.registry import MetricsRegistry
from moorage.model.pod import Pod
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

_BYTES = frozenset((MEMORY, "storage", EPHEMERAL_STORAGE))


def render_pod_resources(pods: Iterable[Pod]) -> tuple[str, bytes]:
    """The content type and the text for these pods."""
    registry = MetricsRegistry("resources.yaml")
    for pod in pods:
        # One that was never on a node cannot have ended, whatever its phase says.
        if pod.spec.node_name and pod.finished:
            continue
        for kind, amounts in (("request", pod_requests(pod)), ("limit", pod_limits(pod))):
            for resource, milli in amounts.items():
                if milli:
                    name = f"kube_pod_resource_{kind}"
                    registry.set(name, milli / 1000, *_labels(pod, resource))
    return registry.render()


def pod_requests(pod: Pod) -> Resources:
    """What a pod asks for by its spec, in thousandths, overhead included."""
    total = container_totals(pod, lambda container: to_milli(container.resources.requests))
    _take_pod_level(total, None if pod.spec.resources is None else pod.spec.resources.requests)
    for name, value in to_milli(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + value
    return total


def pod_limits(pod: Pod) -> Resources:
    """What a pod may use, in thousandths; overhead comes on top of limits only where there are."""
    total = container_totals(pod, lambda container: to_milli(container.resources.limits))
    _take_pod_level(total, None if pod.spec.resources is None else pod.spec.resources.limits)
    for name, value in to_milli(pod.spec.overhead).items():
        if total.get(name):
            total[name] += value
    return total


def _take_pod_level(total: Resources, pod_level: ResourceList | None) -> None:
    for name, value in to_milli(pod_level).items():
        if is_pod_level(name):
            total[name] = value


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
