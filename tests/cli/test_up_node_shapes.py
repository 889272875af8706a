"""`moorage up --nodes --shape`: which nodes there are, and what is said of a shape that is none."""

from typing import Any

import pytest

from cli.running import Run
from moorage.errors import InputError
from moorage.simulator.node_shapes import counted_shapes, parse_shape, shaped_nodes


def _nodes(count: int | None, *shapes: str) -> dict[str, dict[str, Any]]:
    made = shaped_nodes(counted_shapes(count, [parse_shape(text) for text in shapes]))
    return {node["metadata"]["name"]: node for node in made}


def test_one_shape_is_that_of_all_nodes() -> None:
    found = _nodes(100, "cpu=32,memory=128Gi,gpu=8")
    assert len(found) == 100
    assert found["node-99"]["status"]["allocatable"] == {
        "cpu": "32",
        "memory": "128Gi",
        "ephemeral-storage": "100Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
    }
    zones = {node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in found.values()}
    assert zones == {"zone-a", "zone-b", "zone-c"}


def test_shapes_with_counts_add_up_and_may_have_names_and_zones() -> None:
    found = _nodes(2, "1:cpu=64", "2:name=gpu,zone=west,example.com/nic=4", "1:name=gpu,pods=5")
    assert list(found) == ["node-0", "node-1", "node-2", "gpu-0", "gpu-1", "gpu-2"]
    cpus = [found[f"node-{number}"]["status"]["capacity"]["cpu"] for number in range(3)]
    assert cpus == ["8", "8", "64"]
    assert found["gpu-1"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "west"
    assert found["gpu-1"]["status"]["capacity"]["example.com/nic"] == "4"


def test_a_shape_without_any_number_is_one_node() -> None:
    assert list(_nodes(None, "cpu=1")) == ["node-0"]


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("cpu=x", "'x' is not an amount of cpu"),
        ("cpu=-1", "'-1' is not an amount of cpu"),
        ("cpus=1", "there is no resource 'cpus'"),
        ("5", "'5' is not KEY=VALUE"),
        ("x:cpu=1", "'x' is not a number of nodes"),
    ],
)
def test_what_is_no_shape_is_said_in_one_sentence(run: Run, shape: str, why: str) -> None:
    done = run("up", "--once", "--shape", shape)
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f"--shape {shape}: {why}" in done.err


def test_only_one_shape_may_go_without_a_number() -> None:
    with pytest.raises(InputError, match="only one may go without a number of nodes"):
        _nodes(3, "cpu=1", "cpu=2")


def test_nobody_gets_millions_of_nodes() -> None:
    with pytest.raises(InputError, match="at most 100000 nodes, got 2000000"):
        _nodes(None, "2000000:cpu=1")
