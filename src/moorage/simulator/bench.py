"""How fast the engine decides: pods placed one by one on empty nodes, in process.

Owns the nodes and pods of each workload and the measuring. Everything is built and decoded before
the clock starts; what is measured is `Cycle.decide` and `ClusterState.assume`, nothing else.
"""

import resource
import sys
import time
from collections.abc import Callable, Mapping

import msgspec

from moorage.engine.decisions import Bind
from moorage.errors import InputError
from moorage.model.decode import decode_object
from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL, Node
from moorage.model.pod import Pod
from moorage.simulator.world import World

ZONES = 10
APPS = 20
_BLUE: Json = {"matchLabels": {"color": "blue"}}


def _spread(when_unsatisfiable: str) -> Json:
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 5,
                "topologyKey": ZONE_LABEL,
                "whenUnsatisfiable": when_unsatisfiable,
                "labelSelector": _BLUE,
            }
        ]
    }


def _term(topology_key: str) -> Json:
    return {"topologyKey": topology_key, "labelSelector": _BLUE}


def _required(kind: str, topology_key: str) -> Json:
    return {
        "affinity": {
            kind: {"requiredDuringSchedulingIgnoredDuringExecution": [_term(topology_key)]}
        }
    }


def _preferred(kind: str, topology_key: str) -> Json:
    weighted = {"weight": 1, "podAffinityTerm": _term(topology_key)}
    return {"affinity": {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


WORKLOADS: Mapping[str, Json] = {
    "basic": {},
    "spread": _spread("DoNotSchedule"),
    "prefspread": _spread("ScheduleAnyway"),
    "affinity": _required("podAffinity", ZONE_LABEL),
    "antiaffinity": _required("podAntiAffinity", HOSTNAME_LABEL),
    "prefaffinity": _preferred("podAffinity", HOSTNAME_LABEL),
}
"""Name -> what the workload's pods have in their spec beside the basic pod's."""


class Measurement(msgspec.Struct, frozen=True):
    """What was run, and what it took."""

    nodes: int
    pods: int
    workload: str
    placed: int
    pods_per_second: float
    us_per_pod_p50: float
    us_per_pod_p99: float
    cpu_seconds: float
    peak_rss_mib: float


def make_node(index: int) -> Node:
    """One of the benchmark's nodes."""
    name = f"node-{index:05d}"
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "200Gi"}
    labels = {
        HOSTNAME_LABEL: name,
        ZONE_LABEL: f"zone-{index % ZONES}",
        REGION_LABEL: "region-1",
    }
    decoded = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts},
        },
        "benchmark",
    )
    assert isinstance(decoded, Node)
    return decoded


def make_pod(index: int, workload: str) -> Pod:
    """One of a workload's pods."""
    name = f"pod-{index:06d}"
    requests = {"cpu": "100m", "memory": "500Mi"}
    decoded = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "labels": {"app": f"app-{index % APPS}", "color": "blue"},
            },
            "spec": {
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                **WORKLOADS[workload],
            },
        },
        "benchmark",
    )
    assert isinstance(decoded, Pod)
    return decoded


def measure(
    world: World,
    *,
    nodes: int,
    pods: int,
    workload: str,
    now: Callable[[], int] = time.perf_counter_ns,
) -> Measurement:
    """Fill an empty world with nodes, place pods on them and measure each decision."""
    world.add_all(make_node(index) for index in range(nodes))
    waiting = [make_pod(index, workload) for index in range(pods)]
    profile = world.profiles.get(waiting[0].spec.scheduler_name)
    if profile is None:
        raise InputError(
            f"the configuration has no profile for {waiting[0].spec.scheduler_name}, "
            "the scheduler of the benchmark's pods"
        )
    decide, assume = world.cycle.decide, world.state.assume
    took: list[int] = []
    placed = 0
    cpu_before = time.process_time()
    started = before = now()
    for pod in waiting:
        decision, _ = decide(profile, pod)
        if isinstance(decision, Bind):
            assume(pod, decision.node_name)
            placed += 1
        after = now()
        took.append(after - before)
        before = after
    cpu_seconds = time.process_time() - cpu_before
    took.sort()
    return Measurement(
        nodes=nodes,
        pods=pods,
        workload=workload,
        placed=placed,
        pods_per_second=round(pods / max((before - started) / 1e9, 1e-9), 1),
        us_per_pod_p50=_percentile(took, 50),
        us_per_pod_p99=_percentile(took, 99),
        cpu_seconds=round(cpu_seconds, 3),
        peak_rss_mib=round(_peak_bytes() / 2**20, 1),
    )


def _percentile(ordered: list[int], percent: int) -> float:
    """The nearest-rank percentile in microseconds."""
    rank = -(-len(ordered) * percent // 100)
    return round(ordered[max(rank, 1) - 1] / 1000, 1)


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024
