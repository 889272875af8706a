"""The sample cluster that `make demo` shows."""

import json
from importlib.resources import files

import pytest
import yaml

from cli.running import Run

SAMPLE = str(files("moorage") / "samples" / "harbour.yaml")


@pytest.fixture
def pods(run: Run) -> dict[str, dict[str, object]]:
    done = run("schedule", "-f", SAMPLE, "-o", "json")
    assert (done.code, done.err) == (0, "")
    return {f"{pod['namespace']}/{pod['name']}": pod for pod in json.loads(done.out)["pods"]}


def test_the_sample_is_a_cluster_worth_looking_at(pods: dict[str, dict[str, object]]) -> None:
    with open(SAMPLE, encoding="utf-8") as file:
        objects = list(yaml.safe_load_all(file))
    nodes = [obj for obj in objects if obj["kind"] == "Node"]
    assert len(nodes) == 24
    assert len({node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}) == 3
    outcomes = [pod["outcome"] for pod in pods.values()]
    assert len(outcomes) == 26
    assert {outcome: outcomes.count(outcome) for outcome in set(outcomes)} == {
        "Placed": 23,
        "Pending": 1,
        "Gated": 1,
        "NotResponsible": 1,
    }


def test_the_unschedulable_pod_says_why(pods: dict[str, dict[str, object]]) -> None:
    assert pods["batch/archive-0"]["message"] == (
        "0/24 nodes are available: 1 node(s) were unschedulable, 12 node(s) didn't match Pod's "
        "node affinity/selector, 5 Insufficient memory, 6 node(s) had untolerated taint(s). "
        "preemption: 0/24 nodes are available: "
        "24 Preemption is not helpful for scheduling."
    )


def test_the_important_pod_evicts_one_that_no_budget_protects(
    pods: dict[str, dict[str, object]],
) -> None:
    important = pods["vision/wreck-search"]
    assert (important["node"], important["victims"]) == ("east-gpu", ["vision/buoy-training-c1"])
    assert pods["vision/hull-inspector"]["node"] == "south-gpu"


def test_hard_spreading_is_even(pods: dict[str, dict[str, object]]) -> None:
    zones = [str(pods[f"harbour/berth-planner-{i}"]["node"]).split("-")[0] for i in range(6)]
    assert {zone: zones.count(zone) for zone in set(zones)} == {"north": 2, "south": 2, "east": 2}


def test_the_demo_prints_both_tables(run: Run) -> None:
    done = run("schedule", "-f", SAMPLE)
    assert "batch      archive-0        <pending>      0/24 nodes are available" in done.out
    done = run("schedule", "-f", SAMPLE, "--explain", "batch/archive-0")
    assert done.out.count("NodeResourcesFit: Insufficient memory") > 10
