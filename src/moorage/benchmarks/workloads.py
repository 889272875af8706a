"""What the benchmarks schedule: nodes, the pods to place, and what is in the cluster before.

Owns the workloads by name and the objects of those whose nodes and pods are all alike. The others'
objects are in `app_workloads`; measuring is `engine_bench`'s part.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path

import msgspec

from moorage.benchmarks.app_workloads import (
    NAMESPACE,
    app_pods,
    bound_pods,
    node_manifest,
    pod_manifest,
    shaped_node,
)
from moorage.errors import InputError
from moorage.model.decode import UnknownKind, decode_object
from moorage.model.meta import ApiObject, Json
from moorage.model.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.model.pod import Pod

ZONES = 10
APPS = 20
DEVICES_PER_NODE = 8
LESSER_PODS_PER_NODE = 4
_DRIVER = "gpu.example.com"
_DEVICES = "resource.k8s.io/v1"
_BLUE: Json = {"matchLabels": {"color": "blue"}}
_SELECTOR = (
    f'device.attributes["{_DRIVER}"].model == "large" && '
    f'device.capacity["{_DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
)


def _nothing(index: int) -> Json:
    return {}


def _no_objects(nodes: int, pods: int) -> Iterator[Json]:
    return iter(())


def _equal_node(index: int) -> Json:
    labels = {ZONE_LABEL: f"zone-{index % ZONES}"}
    return node_manifest(_node_name(index), labels, "32", "256Gi", {})


class Workload(msgspec.Struct, frozen=True):
    """The manifests of a workload, by number."""

    pod: Callable[[int], Json]
    before: Callable[[int, int], Iterator[Json]] = _no_objects
    """What is there before, beside so many nodes, for so many pods to come."""
    node: Callable[[int], Json] = _equal_node


def _equal_pods(
    spec: Callable[[int], Json] = _nothing,
    before: Callable[[int, int], Iterator[Json]] = _no_objects,
    cpu: str = "100m",
) -> Workload:
    """Pods that ask for little, on equal nodes; `spec` is what each has besides."""
    return Workload(lambda index: _pod(f"pod-{index:06d}", index, cpu, spec(index)), before)


def _always(spec: Json) -> Workload:
    return _equal_pods(lambda _: spec)


def _spread(when_unsatisfiable: str) -> Workload:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": _BLUE,
    }
    return _always({"topologySpreadConstraints": [constraint]})


def _term(topology_key: str) -> Json:
    return {"topologyKey": topology_key, "labelSelector": _BLUE}


def _required(kind: str, topology_key: str) -> Workload:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [_term(topology_key)]}
    return _always({"affinity": {kind: terms}})


def _preferred(kind: str, topology_key: str) -> Workload:
    weighted = {"weight": 1, "podAffinityTerm": _term(topology_key)}
    terms = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    return _always({"affinity": {kind: terms}})


def _lesser_pods(nodes: int, pods: int) -> Iterator[Json]:
    """Pods without priority that fill every node, each started at another time."""
    for index in range(nodes * LESSER_PODS_PER_NODE):
        body = _pod(f"lesser-{index:06d}", index, "8", {"nodeName": _node_name(index % nodes)})
        started = f"2026-03-01T{index // 3600 % 24:02d}:{index // 60 % 60:02d}:{index % 60:02d}Z"
        yield body | {"status": {"startTime": started}}


def _devices(selector: Callable[[int], str]) -> Callable[[int, int], Iterator[Json]]:
    """Devices of two models on every node, no two the same, and a claim per pod."""

    def objects(nodes: int, pods: int) -> Iterator[Json]:
        driver = f'device.driver == "{_DRIVER}"'
        yield _object("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": driver}}]})
        for index in range(nodes):
            yield _object("ResourceSlice", f"slice-{index:05d}", _offer(_node_name(index)))
        for index in range(pods):
            exactly = {
                "deviceClassName": "gpu",
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": selector(index)}}],
            }
            spec = {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}
            yield _object("ResourceClaim", _claim_name(index), spec, namespace=NAMESPACE)

    return objects


def _offer(node_name: str) -> Json:
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "model": {"string": "large" if number % 2 else "small"},
                "numa": {"int": number // 4},
                "uuid": {"string": f"{node_name}-{number}"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for number in range(DEVICES_PER_NODE)
    ]
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    return {"driver": _DRIVER, "nodeName": node_name, "pool": pool, "devices": devices}


def _claiming(selector: Callable[[int], str]) -> Workload:
    def spec(index: int) -> Json:
        claim = {"name": "gpu", "resourceClaimName": _claim_name(index)}
        return {"resourceClaims": [claim]}

    return _equal_pods(spec, _devices(selector))


WORKLOADS: Mapping[str, Workload] = {
    "mixed": Workload(app_pods(replicas=12), node=shaped_node),
    "distinct": Workload(app_pods(replicas=1), node=shaped_node),
    "statefulset": Workload(app_pods(replicas=12, stateful=True), node=shaped_node),
    "bound": Workload(app_pods(replicas=1), bound_pods, shaped_node),
    "basic": _equal_pods(),
    "spread": _spread("DoNotSchedule"),
    "prefspread": _spread("ScheduleAnyway"),
    "affinity": _required("podAffinity", ZONE_LABEL),
    "antiaffinity": _required("podAntiAffinity", HOSTNAME_LABEL),
    "prefaffinity": _preferred("podAffinity", HOSTNAME_LABEL),
    "preemption": _equal_pods(lambda _: {"priority": 100}, _lesser_pods, cpu="20"),
    "devices": _claiming(lambda _: _SELECTOR),
    "devices-distinct": _claiming(lambda index: f"{_SELECTOR} && {index} >= 0"),
}
"""By name."""


def make_pod(index: int, workload: Workload) -> Pod:
    """One of a workload's pods.

    As a live scheduler does, this works out what follows from the pod alone when it is decoded.
    """
    decoded = decode_object(workload.pod(index), "benchmark")
    assert isinstance(decoded, Pod)
    _ = decoded.derived(), decoded.label_set
    return decoded


def made_before(workload: Workload, nodes: int, pods: int) -> Iterator[ApiObject]:
    """What is in the cluster before the first pod comes: nodes and whatever else."""
    manifests = (workload.node(index) for index in range(nodes))
    for body in chain(manifests, workload.before(nodes, pods)):
        decoded = decode_object(body, "benchmark")
        assert not isinstance(decoded, UnknownKind)
        yield decoded


def write_manifests(folder: Path, workload: str, nodes: int, pods: int) -> None:
    """Write a workload as files that `moorage schedule -f` reads, nodes and pods in their order."""
    kind = WORKLOADS[workload]
    files = {
        "nodes": map(kind.node, range(nodes)),
        "before": kind.before(nodes, pods),
        "pods": map(kind.pod, range(pods)),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, items in files.items():
            document = {"apiVersion": "v1", "kind": "List", "items": list(items)}
            (folder / f"{name}.json").write_bytes(msgspec.json.encode(document))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error


def _node_name(index: int) -> str:
    return f"node-{index:05d}"


def _claim_name(index: int) -> str:
    return f"claim-{index:06d}"


def _pod(name: str, index: int, cpu: str, spec: Json) -> Json:
    requests = {"cpu": cpu, "memory": "500Mi"}
    containers = [{"name": "main", "resources": {"requests": requests}}]
    labels = {"app": f"app-{index % APPS}", "color": "blue"}
    return pod_manifest(name, labels, {"containers": containers, **spec})


def _object(kind: str, name: str, spec: Json, **metadata: str) -> Json:
    return {
        "apiVersion": _DEVICES,
        "kind": kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", **metadata},
        "spec": spec,
    }
