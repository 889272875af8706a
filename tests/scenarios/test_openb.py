"""Runs of a GPU trace: the real engine places the pods of a small trace as naive policies do."""

import csv
import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gallery.gpu_clusters import MODELS, gpu_pod
from moorage.errors import InputError
from moorage.gallery.typical_pods import typical_pods
from moorage.scenarios.openb import Allocation, run_openb, write_curve
from moorage.scenarios.traces.openb import (
    Order,
    TraceNode,
    TracePod,
    read_nodes,
    read_order,
    read_pods,
)
from reference import shared_gpus
from reference.shared_gpus import GpuNode, Usual, Wish

NODES = [
    TraceNode("node-a", 8000, 4096, 2, "T4"),
    TraceNode("node-b", 16000, 8192, 4, "V100"),
    TraceNode("node-c", 4000, 4096, 1, "T4"),
]
SHAPES = (
    (1000, 1, 1000, ()),
    (2000, 1, 500, ()),
    (500, 1, 250, ("T4",)),
    (3000, 2, 1000, MODELS),
    (1000, 1, 700, ()),
    (4000, 0, 0, ()),
)
PODS = [TracePod(f"pod-{i}", cpu, 64, *gpus) for i, (cpu, *gpus) in enumerate(SHAPES)]  # type: ignore[arg-type]

Choice = Callable[[GpuNode, Wish], tuple[float, Sequence[int]]]
"""How good a node is, and which devices the pod gets there."""


def by_node(score: Callable[[GpuNode, Wish], int]) -> Choice:
    return lambda node, wish: (score(node, wish), shared_gpus.tight_devices(node, wish))


def by_device(
    score: Callable[[GpuNode, Wish, Sequence[int], Usual], float], usual: Usual
) -> Choice:
    def choose(node: GpuNode, wish: Wish) -> tuple[float, Sequence[int]]:
        choices = [[i] for i, left in enumerate(node.left) if left >= wish.milli]
        if not wish.is_fraction:
            choices = [shared_gpus.tight_devices(node, wish)]
        points = [int(score(node, wish, devices, usual) + 1e-9) for devices in choices]
        best = points.index(max(points))
        return points[best], choices[best]

    return choose


def naive_run(order: Order, choose: Choice) -> list[int]:
    """What is allocated after each arrival."""
    ranked = sorted(zip(order.ranks, NODES, strict=True))
    nodes = [GpuNode(n.name, n.cpu_milli, n.gpus, n.model) for _, n in ranked]
    allocated, total = [], 0
    for arrival in order.arrivals:
        pod = PODS[arrival]
        wish = Wish(pod.cpu_milli, pod.gpus, pod.gpu_milli, pod.models)
        fitting = [node for node in nodes if node.fits(wish)]
        if fitting:
            scores = [choose(node, wish) for node in fitting]
            best = [points for points, _ in scores].index(max(points for points, _ in scores))
            fitting[best].take(wish, scores[best][1])
            total += wish.gpus * wish.milli
        allocated.append(total)
    return allocated


def usual() -> Usual:
    """All of the pods are usual: each is a twentieth or more."""
    return [(Wish(p.cpu_milli, p.gpus, p.gpu_milli, p.models), 1 / len(PODS)) for p in PODS]


CHOICES = {
    "best-fit": by_node(shared_gpus.best_fit),
    "dot-product": by_node(shared_gpus.dot_prod),
    "gpu-packing": by_node(shared_gpus.gpu_packing),
    "gpu-clustering": by_node(shared_gpus.gpu_clustering),
    "fgd": by_device(shared_gpus.fgd, usual()),
    "gpu-headroom": by_device(shared_gpus.gpu_headroom, usual()),
}


@settings(max_examples=25)
@given(
    arrivals=st.lists(st.integers(0, len(PODS) - 1), min_size=1, max_size=16),
    ranks=st.permutations(range(len(NODES))),
)
@pytest.mark.parametrize("policy", CHOICES)
def test_the_engine_places_pods_as_the_naive_policy_does(
    policy: str, arrivals: list[int], ranks: list[int]
) -> None:
    order = Order(arrivals, ranks)
    expected = naive_run(order, CHOICES[policy])
    assert list(run_openb(NODES, PODS, order, policy).allocated) == expected


def test_random_depends_on_the_seed_alone() -> None:
    order = Order([0, 1, 2, 3, 4, 5] * 3, [0, 1, 2])
    runs = [run_openb(NODES, PODS, order, "random", seed) for seed in (1, 1, 2, 3, 4)]
    assert runs[0] == runs[1]
    assert len({tuple(run.allocated) for run in runs}) > 1


def test_the_curve_has_the_mean_of_what_was_allocated_at_each_percent() -> None:
    allocation = Allocation(100, [1000, 2000, 2100, 40_000], [1000, 1500, 1600, 30_000], 4)
    curve = allocation.curve()
    assert curve[:4] == [1.0, 1.0, 1.55, 1.55]
    assert curve[4] is None
    assert curve[39:42] == [30.0, 30.0, 30.0]
    assert len(curve) == 131


def test_usual_pods_cover_95_percent_the_most_frequent_first() -> None:
    wishes = [Wish(1, 1, 500)] * 12 + [Wish(2, 1, 500)] * 7 + [Wish(3)]
    found = typical_pods(gpu_pod(f"p-{i}", wish) for i, wish in enumerate(wishes))
    assert [pod.cpu for pod in found] == [1, 2]
    assert [pod.weight for pod in found] == pytest.approx([12 / 19, 7 / 19])


def test_the_curve_is_written_in_the_published_layout(tmp_path: Path) -> None:
    path = tmp_path / "curve.csv"
    allocation = Allocation(2, [1000, 2600], [1000, 2000], 2)
    write_curve(path, allocation, Path("openb_pod_list_tiny.csv.gz"), "fgd", 42)
    header, row = csv.reader(path.read_text().splitlines())
    assert header[:7] == ["workload", "sc_policy", "tune", "seed", "total_gpus", "0", "1"]
    assert row[:6] == ["openb_pod_list_tiny", "06-FGD", "1.3", "42", "2", ""]
    assert header[-1] == "130"
    assert row[-1] == "100.0"


def write(path: Path, text: str) -> Path:
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_files_are_read_and_sorted_by_name(tmp_path: Path) -> None:
    nodes = "sn,cpu_milli,memory_mib,gpu,model\nn-2,8000,64,2,T4\nn-1,4000,32,0,\n"
    assert read_nodes(write(tmp_path / "nodes.csv", nodes)) == [
        TraceNode("n-1", 4000, 32, 0, ""),
        TraceNode("n-2", 8000, 64, 2, "T4"),
    ]
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
        "p-1,1000,64,1,460,T4|V100,LS\np-0,500,64,0,0,,BE\np-2,500,64,2,1500,,BE\n"
    )
    assert read_pods(write(tmp_path / "pods.csv.gz", pods)) == [
        TracePod("p-0", 500, 64, 0, 0, ()),
        TracePod("p-1", 1000, 64, 1, 460, ("T4", "V100")),
        TracePod("p-2", 500, 64, 2, 1000, ()),
    ]
    order = write(tmp_path / "order.txt.gz", "2 0 1 1\n1 0\n")
    assert read_order(order, 3, 2) == Order([2, 0, 1, 1], [1, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sn,cpu_milli,gpu\n", ":1: expected the column memory_mib"),
        (
            "sn,cpu_milli,memory_mib,gpu\nn,1,2\n",
            ":2: gpu: expected a value, got nothing",
        ),
        (
            "sn,cpu_milli,memory_mib,gpu\nn,1,2,3\nm,1.5,2,3\n",
            ":3: cpu_milli: expected a whole number, got '1.5'",
        ),
        (
            "sn,cpu_milli,memory_mib,gpu\nn,1,2,65\n",
            ":2: gpu: expected at most 64 GPUs, got 65",
        ),
        (
            "sn,cpu_milli,memory_mib,gpu\nn,1,2,3\nn,1,2,3\n",
            ":3: sn: expected each name once, got 'n' again",
        ),
        ("sn,cpu_milli,memory_mib,gpu\nn,1,2,3,4\n", ":2: expected 4 values, got more"),
        ("sn,cpu_milli,memory_mib,gpu,gpu\n", ":1: expected the column gpu once"),
        ('sn,cpu_milli,memory_mib,gpu\n"n', ":1: expected CSV: unexpected end of data"),
    ],
)
def test_a_table_that_is_wrong_is_told_by_line_and_column(
    tmp_path: Path, text: str, message: str
) -> None:
    path = write(tmp_path / "nodes.csv", text)
    with pytest.raises(InputError) as error:
        read_nodes(path)
    assert str(error.value) == f"{path}{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n", ": expected a line of pods and a line of ranks, got 1"),
        ("0 x\n0 1\n", ":1: expected whole numbers, got 'x'"),
        ("0 " + 5000 * "9" + "\n0 1\n", f":1: expected whole numbers, got {40 * '9'!r}"),
        ("0 3\n0 1\n", ":1: expected numbers of 3 pods, from 0 to 2"),
        ("\n0 1\n", ":1: expected numbers of 3 pods, from 0 to 2"),
        ("0 1\n0 0\n", ":2: expected each rank from 0 to 1 once"),
    ],
)
def test_an_order_that_is_wrong_is_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "order.txt", text)
    with pytest.raises(InputError) as error:
        read_order(path, 3, 2)
    assert str(error.value) == f"{path}{message}"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_pods(tmp_path / "missing.csv")
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="Not a gzipped file"):
        read_pods(broken)
    (tmp_path / "latin.csv").write_bytes(b"name\xff")
    with pytest.raises(InputError, match="expected text in UTF-8"):
        read_pods(tmp_path / "latin.csv")
    with pytest.raises(InputError, match="expected at least one pod"):
        read_pods(write(tmp_path / "empty.csv", "name,cpu_milli,memory_mib,num_gpu\n"))
    without = [TraceNode("n", 1, 1, 0, "")]
    with pytest.raises(InputError, match="have no GPUs"):
        run_openb(without, PODS, Order([0], [0]), "fgd")
