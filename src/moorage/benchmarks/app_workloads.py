"""An ordinary cluster for benchmarks: nodes of several shapes, many apps with rules of their own.

Owns these objects, which follow from their numbers alone. Apps differ in requests, labels,
spreading, affinity, selectors and tolerations; their pods arrive shuffled. With one replica per app
no pod is like another.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from random import Random
from typing import NamedTuple

from moorage.model.meta import Json
from moorage.model.node import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL

ZONES = 6
TEAMS = 40
NAMESPACE = "default"
PODS_PER_NODE = 110
_POOL_LABEL = "example.com/pool"
_TYPE_LABEL = "node.kubernetes.io/instance-type"
_ARCH_LABEL = "kubernetes.io/arch"
_SHUFFLED_TOGETHER = 3000
BOUND_PODS_PER_NODE = 20
_REPLICAS_BOUND = 40
_FIRST_BOUND_APP = 50_000
_STRIDE = 251


class _Pool(NamedTuple):
    name: str
    share: int
    """How many of 100 nodes belong to it."""
    types: tuple[tuple[str, int, int], ...]
    """Name, CPUs and GiB of memory of its instance types."""
    taint: str = ""
    """The effect of the pool's taint, if it has one."""


_POOLS = (
    _Pool("general", 60, (("g8", 8, 32), ("g16", 16, 64), ("g32", 32, 128))),
    _Pool("memory", 20, (("m16", 16, 128), ("m32", 32, 256))),
    _Pool("spot", 15, (("g16", 16, 64), ("g64", 64, 256)), "PreferNoSchedule"),
    _Pool("accelerated", 5, (("a64", 64, 512),), "NoSchedule"),
)
_POOL_OF = tuple(pool for pool in _POOLS for _ in range(pool.share))


def shaped_node(index: int) -> Json:
    """A node of one of the pools; one in a hundred is cordoned."""
    draw = Random(f"node-{index}")
    pool = draw.choice(_POOL_OF)
    instance_type, cpus, gibibytes = draw.choice(pool.types)
    labels = {
        ZONE_LABEL: f"zone-{index % ZONES}",
        _POOL_LABEL: pool.name,
        _TYPE_LABEL: instance_type,
        _ARCH_LABEL: "arm64" if draw.random() < 0.1 else "amd64",
    }
    spec: Json = {"unschedulable": True} if draw.random() < 0.01 else {}
    if pool.taint:
        spec["taints"] = [{"key": _POOL_LABEL, "value": pool.name, "effect": pool.taint}]
    return node_manifest(f"node-{index:05d}", labels, str(cpus), f"{gibibytes}Gi", spec)


def node_manifest(name: str, labels: Json, cpu: str, memory: str, spec: Json) -> Json:
    """A node with room for 110 pods."""
    amounts = {
        "cpu": cpu,
        "memory": memory,
        "pods": str(PODS_PER_NODE),
        "ephemeral-storage": "200Gi",
    }
    labels = {HOSTNAME_LABEL: name, REGION_LABEL: "region-1", **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod_manifest(name: str, labels: Json, spec: Json) -> Json:
    """A pod whose uid is its name."""
    metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def app_pods(*, replicas: int, stateful: bool = False) -> Callable[[int], Json]:
    """The pods of many apps by the number of their arrival.

    Pods of a StatefulSet have a label of their own each, keep apart from one another and spread
    over the zones.
    """

    def pod(index: int) -> Json:
        block, place = divmod(index, _SHUFFLED_TOGETHER)
        number, replica = divmod(_shuffled(block)[place] + block * _SHUFFLED_TOGETHER, replicas)
        app = _app(number, stateful)
        name = f"app-{number:05d}-{replica}"
        labels = app.labels
        if stateful:
            labels = labels | {
                "statefulset.kubernetes.io/pod-name": name,
                "apps.kubernetes.io/pod-index": str(replica),
            }
        return pod_manifest(name, labels, app.spec)

    return pod


def bound_pods(nodes: int, pods: int) -> Iterator[Json]:
    """Pods that have a node, of apps that each have a selector of their own and no pod to come."""
    del pods
    apps = max(nodes * BOUND_PODS_PER_NODE // _REPLICAS_BOUND, 1)
    for index in range(nodes * BOUND_PODS_PER_NODE):
        replica, number = divmod(index, apps)
        app = _app(_FIRST_BOUND_APP + number, stateful=True)
        name = f"bound-{number:05d}-{replica}"
        # Moved on with every replica, so that those of an app are on different nodes.
        node_name = f"node-{(index + replica * _STRIDE) % nodes:05d}"
        yield pod_manifest(name, app.labels, app.spec | {"nodeName": node_name})


@lru_cache(maxsize=4)
def _shuffled(block: int) -> list[int]:
    """The order in which pods of a block arrive."""
    return Random(block).sample(range(_SHUFFLED_TOGETHER), _SHUFFLED_TOGETHER)


class _App(NamedTuple):
    labels: dict[str, str]
    spec: Json


@lru_cache(maxsize=1 << 14)
def _app(number: int, stateful: bool) -> _App:
    draw = Random(f"app-{number}")
    name = f"app-{number:05d}"
    labels = {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/version": f"v{draw.randint(1, 30)}",
        "team": f"team-{draw.randrange(TEAMS)}",
        "tier": draw.choice(("web", "api", "worker", "cache", "db")),
    }
    own: Json = {"matchLabels": {"app.kubernetes.io/name": name}}
    requests = {"cpu": f"{draw.randint(5, 150) * 10}m", "memory": f"{draw.randint(4, 250) * 16}Mi"}
    spec: Json = {
        "containers": [{"name": "main", "resources": {"requests": requests}}],
        "tolerations": _tolerations(draw),
    }
    if draw.random() < 0.2:
        spec["nodeSelector"] = {_POOL_LABEL: draw.choice(("general", "memory"))}
    constraints = _spreading(draw, own, stateful)
    if constraints:
        spec["topologySpreadConstraints"] = constraints
    affinity = _affinity(draw, own, number, stateful)
    if "nodeSelector" in spec:
        affinity.pop("nodeAffinity", None)  # together they might leave no node
    if affinity:
        spec["affinity"] = affinity
    return _App(labels, spec)


def _tolerations(draw: Random) -> list[Json]:
    return [
        {"key": _POOL_LABEL, "operator": "Equal", "value": pool.name}
        for pool in _POOLS
        if pool.taint and draw.random() < 0.2
    ]


def _spreading(draw: Random, own: Json, stateful: bool) -> list[Json]:
    constraints = []
    if stateful or draw.random() < 0.4:
        constraints.append(
            {
                "maxSkew": draw.randint(1, 3),
                "topologyKey": ZONE_LABEL,
                "whenUnsatisfiable": draw.choice(("DoNotSchedule", "ScheduleAnyway")),
                "labelSelector": own,
            }
        )
    if draw.random() < 0.25:
        constraints.append(
            {
                "maxSkew": 1,
                "topologyKey": HOSTNAME_LABEL,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": own,
            }
        )
    return constraints


def _affinity(draw: Random, own: Json, number: int, stateful: bool) -> Json:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    affinity: Json = {}
    if draw.random() < 0.15:
        types = draw.sample(("g8", "g16", "g32", "m16", "m32"), 3)
        expression = {"key": _TYPE_LABEL, "operator": "In", "values": types}
        terms = [{"matchExpressions": [expression]}]
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
    if draw.random() < 0.15:
        other = {"matchLabels": {"app.kubernetes.io/name": f"app-{max(0, number - 1):05d}"}}
        term = {"topologyKey": ZONE_LABEL, "labelSelector": other}
        weighted = {"weight": draw.randint(1, 100), "podAffinityTerm": term}
        affinity["podAffinity"] = {preferred: [weighted]}
    keep_apart = {"topologyKey": HOSTNAME_LABEL, "labelSelector": own}
    if stateful or draw.random() < 0.15:
        affinity["podAntiAffinity"] = {required: [keep_apart]}
    elif draw.random() < 0.15:
        weighted = {"weight": draw.randint(1, 100), "podAffinityTerm": keep_apart}
        affinity["podAntiAffinity"] = {preferred: [weighted]}
    return affinity
