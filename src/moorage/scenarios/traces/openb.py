"""The GPU trace "openb": nodes, pods, when they came and went, or in which order they arrive.

Owns the layout of the files (Alibaba's cluster-trace-gpu-v2023; an order is two lines of numbers)
and what Kubernetes objects are made of their rows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from moorage.errors import InputError
from moorage.gallery.gpus import GPU_COUNT, GPU_MILLI, GPU_MODEL, MOST_DEVICES
from moorage.scenarios.traces.changes import Json, TraceChange, came, went
from moorage.scenarios.traces.rows import Row, csv_rows, read_text

WHOLE_GPU = 1000
MANY_PODS = "1000000"
"""The trace has no limit of pods per node."""
_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu")
_MOST_DIGITS = 9
_TIMES = ("creation_time", "deletion_time")
_PRIORITIES: Mapping[str, int] = {"BE": 0, "Burstable": 100, "LS": 200, "Guaranteed": 300}
"""Of each quality of service."""


class TraceNode(NamedTuple):
    """A node of the trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """What a pod of the trace asks for."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each GPU."""
    models: tuple[str, ...]
    """Any will do if there are none."""


class Order(NamedTuple):
    """Who arrives, and which of equal nodes is taken."""

    arrivals: Sequence[int]
    """Numbers of pods, in the order of their names; a pod may arrive several times."""
    ranks: Sequence[int]
    """Of the nodes, in the order of their names; the smallest comes first."""


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes, by name."""
    nodes = [
        TraceNode(
            row.name("sn"),
            row.amount("cpu_milli"),
            row.amount("memory_mib"),
            _gpus(row, "gpu"),
            row.text("model", missing=""),
        )
        for row in _once(csv_rows(path, _NODE_COLUMNS), "sn")
    ]
    return sorted(nodes)


def read_pods(path: Path) -> list[TracePod]:
    """The pods, by name."""
    pods = sorted(map(_pod, _once(csv_rows(path, _POD_COLUMNS), "name")))
    if not pods:
        raise InputError(f"{path}: expected at least one pod")
    return pods


def _once(rows: Iterable[Row], column: str) -> Iterator[Row]:
    """The rows, as long as each has a name of its own."""
    names = set[str]()
    for row in rows:
        name = row.name(column)
        if name in names:
            row.refuse(column, f"expected each name once, got {name!r} again")
        names.add(name)
        yield row


def _gpus(row: Row, column: str) -> int:
    found = row.amount(column)
    if found > MOST_DEVICES:
        row.refuse(column, f"expected at most {MOST_DEVICES} GPUs, got {found}")
    return found


def _pod(row: Row) -> TracePod:
    gpus = _gpus(row, "num_gpu")
    return TracePod(
        row.name("name"),
        row.amount("cpu_milli"),
        row.amount("memory_mib"),
        gpus,
        min(row.amount("gpu_milli"), WHOLE_GPU) if gpus else 0,
        tuple(filter(None, row.text("gpu_spec", missing="").split("|"))),
    )


def read_order(path: Path, pods: int, nodes: int) -> Order:
    """The order of so many pods and nodes."""
    lines = read_text(path).splitlines()
    if len(lines) < 2:
        raise InputError(f"{path}: expected a line of pods and a line of ranks, got {len(lines)}")
    arrivals = _numbers(path, 1, lines[0])
    ranks = _numbers(path, 2, lines[1])
    if not arrivals or max(arrivals) >= pods:
        raise InputError(f"{path}:1: expected numbers of {pods} pods, from 0 to {pods - 1}")
    if sorted(ranks) != list(range(nodes)):
        raise InputError(f"{path}:2: expected each rank from 0 to {nodes - 1} once")
    return Order(arrivals, ranks)


def _numbers(path: Path, line: int, text: str) -> list[int]:
    words = text.split()
    for word in words:
        if not word.isdecimal() or len(word) > _MOST_DIGITS:
            raise InputError(f"{path}:{line}: expected whole numbers, got {word[:40]!r}")
    return [int(word) for word in words]


# ---- with the times of the trace ----


def openb_changes(nodes: Path | None, pods: Path) -> Iterator[TraceChange]:
    """The nodes, if their file is given, and each pod from its creation to its deletion."""
    if nodes is not None:
        for node in read_nodes(nodes):
            yield came(0.0, _node_manifest(node))
    for row in csv_rows(pods, (*_POD_COLUMNS, "qos", *_TIMES)):
        created, deleted = map(row.amount, _TIMES)
        if deleted < created:
            row.refuse("deletion_time", f"expected no less than creation_time ({created})")
        quality = row.text("qos")
        if quality not in _PRIORITIES:
            row.refuse("qos", f"expected one of {', '.join(_PRIORITIES)}, got {quality!r}")
        manifest = _pod_manifest(_pod(row), quality)
        yield came(created, manifest)
        yield went(deleted, manifest)


def gpu_notes(pod: TracePod) -> dict[str, str]:
    """What the plugins for shared GPUs have to know of a pod, as annotations."""
    if not pod.gpus:
        return {}
    notes = {GPU_COUNT: str(pod.gpus), GPU_MILLI: str(pod.gpu_milli)}
    return notes | ({GPU_MODEL: "|".join(pod.models)} if pod.models else {})


def node_amounts(node: TraceNode) -> dict[str, str]:
    """What a node has."""
    return {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": MANY_PODS,
        GPU_COUNT: str(node.gpus),
    }


def _node_manifest(node: TraceNode) -> Json:
    # Schedulers without a plugin for GPUs see at least how much there is of all of a node's.
    amounts = {**node_amounts(node), GPU_MILLI: str(node.gpus * WHOLE_GPU)}
    labels = {"kubernetes.io/hostname": node.name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": labels | ({GPU_MODEL: node.model} if node.model else {}),
        },
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod_manifest(pod: TracePod, quality: str) -> Json:
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    if pod.gpus:
        requests[GPU_MILLI] = str(pod.gpus * pod.gpu_milli)
    spec: Json = {
        "containers": [{"name": "main", "image": "main", "resources": {"requests": requests}}],
        "priority": _PRIORITIES[quality],
    }
    if pod.models:
        models = {"key": GPU_MODEL, "operator": "In", "values": list(pod.models)}
        terms = [{"matchExpressions": [models]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    metadata = {"name": pod.name, "labels": {"qos": quality}, "annotations": gpu_notes(pod)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
