"""Each measure of quality, by cases that can be reckoned by hand."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from moorage.config import default_config
from moorage.controllers.kubelet import FINISH_AFTER, KubeletOptions
from moorage.controllers.objects import Json
from moorage.scenarios.comparison import differences
from moorage.scenarios.measures import Measures
from moorage.scenarios.quality.fragmentation import Shapes, unusable, usual_shapes
from moorage.scenarios.quality.statistics import estimate, jain, percentiles, t_quantile
from moorage.scenarios.simulation import Simulation
from moorage.scenarios.summary import measures_of, summary
from moorage.simulator.world import full_registry

GPU = "example.com/gpu"


def node(name: str, zone: str = "", **amounts: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **amounts}
    labels = {"topology.kubernetes.io/zone": zone} if zone else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name: str, namespace: str = "default", lasts: str = "", on: str = "", **asks: str) -> Json:
    container = {"name": "main", "image": "main", "resources": {"requests": asks}}
    found: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    if lasts:
        found["metadata"]["annotations"] = {FINISH_AFTER: lasts}
    if on:
        found["spec"]["nodeSelector"] = {"kubernetes.io/hostname": on}
    return found


def played(
    *objects: Json, until: float, later: dict[float, Json] | None = None, **more: Any
) -> Json:
    """The measures of a run with these objects."""
    options = KubeletOptions(lease_seconds=0, **more)
    run = Simulation(default_config(), full_registry(), kubelets=options)
    measures = Measures(run, label="team")
    for body in objects:
        if body["kind"] == "Node":
            body["metadata"]["labels"]["kubernetes.io/hostname"] = body["metadata"]["name"]
        run.come(body)
    for at, body in (later or {}).items():
        run.plan(at, partial(run.come, body))
    run.plan(until, lambda: None)  # it does not end before
    return measures.result(run.play(until))


def test_allocation_is_what_was_asked_for_of_all_that_was_there() -> None:
    # 2 of 4 CPUs for 50 of 100 s, and a GPU of 2 for all the time.
    found = played(
        node("a", **{GPU: "2"}),
        pod("short", lasts="50s", cpu="2"),
        pod("long", **{GPU: "1"}),
        until=100,
    )
    assert found["seconds"] == 100
    assert found["allocation"]["cpu"] == {"mean": 0.25, "peak": 0.5}
    assert found["allocation"][GPU] == {"mean": 0.5, "peak": 0.5}
    assert found["allocation"]["memory"] == {"mean": 0, "peak": 0}
    assert found["samples"]["seconds"][:3] == [0, 1, 2]
    assert found["samples"]["allocation"]["cpu"][48:52] == [0.5, 0.5, 0, 0]


def test_a_node_that_comes_later_counts_from_then_on() -> None:
    # 4 CPUs for 100 s and 4 for 50 s: 600 CPU seconds, of which 100 s x 3 are asked for.
    found = played(node("a"), pod("p", cpu="3"), until=100, later={50: node("b")})
    assert found["allocation"]["cpu"] == {"mean": 0.5, "peak": 0.75}
    assert found["samples"]["allocation"]["cpu"][-1] == 0.375


def test_utilisation_begins_when_a_pod_runs() -> None:
    found = played(node("a"), pod("p", cpu="4"), until=100, start_seconds=20)
    assert found["allocation"]["cpu"]["mean"] == 1
    assert found["utilisation"]["cpu"]["mean"] == 0.8


def test_imbalance_is_the_deviation_between_nodes() -> None:
    # Shares of 1 and 0: half away from the mean.
    found = played(node("a"), node("b"), pod("p", cpu="4"), until=10)
    assert found["imbalance"]["cpu"] == 0.5
    assert found["zoneSkew"] == {}


def test_skew_is_between_the_fullest_zone_and_the_emptiest() -> None:
    nodes = node("a", "east"), node("b", "east"), node("c", "west")
    found = played(*nodes, pod("p", cpu="4", on="a"), pod("q", cpu="1", on="c"), until=10)
    assert found["zoneSkew"]["cpu"] == 0.25  # 4 of 8 in the east, 1 of 4 in the west


def test_fragmentation_is_what_the_usual_pods_cannot_have() -> None:
    # Two nodes with 1 CPU and 8 GiB, and with 4 CPUs and 1 GiB left; a pod of 2 CPUs and 2 GiB.
    free = np.array([[1000, 8], [4000, 1]])
    shapes = Shapes(np.array([[2000, 2]]), np.array([1.0]))
    found = unusable(free, shapes)
    assert found.amount.tolist() == [5000, 9]
    assert found.because.tolist() == [[1000, 4000], [8, 1]]
    # Where both are short, each has half a part in it; half of the pods ask for CPU alone.
    shapes = Shapes(np.array([[2000, 2], [500, 0]]), np.array([0.5, 0.5]))
    found = unusable(np.array([[1000, 1]]), shapes)
    assert found.amount.tolist() == [500, 0.5]
    assert found.because.tolist() == [[250, 250], [0.25, 0.25]]


def test_fragmentation_of_a_run_is_in_shares_and_by_cause() -> None:
    # Both ask for 3 CPUs, so nobody can have the CPU that is left, nor the memory beside it.
    found = played(node("a"), pod("p", cpu="3", memory="2Gi"), until=10)
    assert found["fragmentation"]["cpu"] == {"mean": 0.25, "because": {"cpu": 0.25}}
    assert found["fragmentation"]["memory"] == {"mean": 0.75, "because": {"cpu": 0.75}}


def test_usual_pods_are_the_most_frequent() -> None:
    shapes = usual_shapes([{"cpu": 2}, {"cpu": 1}, {"cpu": 2, "other": 1}], ("cpu", "memory"))
    assert shapes.requests.tolist() == [[2, 0], [1, 0]]
    assert shapes.weights.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_namespaces_are_compared_by_their_dominant_shares() -> None:
    found = played(
        node("a"),
        pod("p", "east", cpu="2", memory="1Gi"),
        pod("q", "west", cpu="1", memory="1Gi"),
        until=10,
    )
    east, west = found["namespaces"]["east"], found["namespaces"]["west"]
    assert (east["dominantResource"], east["dominantShare"]) == ("cpu", 0.5)
    assert west["dominantShare"] == 0.25
    assert west["allocation"] == {"cpu": 0.25, "memory": 0.125, "pods": 0.1}
    assert west["pods"]["placed"] == 1
    assert found["fairness"] == 0.9  # 0.75 squared by twice (0.25 + 0.0625)
    assert found["labels"][""]["pods"]["created"] == 2
    assert found["priorityClasses"][""]["pods"]["created"] == 2


def test_jains_index_is_between_equal_shares_and_one_for_all() -> None:
    assert jain([0.2, 0.2, 0.2]) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == 0.25
    assert jain([0, 0]) is None


def test_work_that_starts_again_elsewhere_has_moved() -> None:
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "web"}]},
            },
        },
    }
    options = KubeletOptions(lease_seconds=0, max_grace_seconds=5)
    run = Simulation(default_config(), full_registry(), kubelets=options)
    measures = Measures(run)
    for body in (node("a"), deployment):
        run.come(body)
    run.plan(10, partial(run.come, node("b")))
    run.plan(20, lambda: run.drain("a"))
    pods = measures.result(run.play(60))["pods"]
    assert pods == {
        "created": 6,
        "placed": 6,
        "pending": 0,
        "finished": 0,
        "preempted": 0,
        "evicted": 3,
        "removed": 3,
        "moved": 3,
    }


def test_percentiles_are_nearest_ranks() -> None:
    assert percentiles(range(1, 101)) == {"mean": 50.5, "p50": 50, "p90": 90, "p99": 99}
    assert percentiles([]) == {"mean": None, "p50": None, "p90": None, "p99": None}


def test_intervals_are_those_of_students_t() -> None:
    # The mean is 2, the deviation 1: 4.303 / sqrt(3).
    found = estimate([1, 2, 3])
    assert found.mean == 2
    assert found.plus_minus == pytest.approx(4.302653 / math.sqrt(3))
    assert estimate([5]).plus_minus is None
    # Published values for 31, 60 and 1000 degrees of freedom.
    published = {31: 2.039513, 60: 2.000298, 1000: 1.962339}
    for freedom, value in published.items():
        assert t_quantile(freedom) == pytest.approx(value, abs=2e-5)


def test_the_summary_has_every_number_by_its_path() -> None:
    runs: list[Json] = [
        {"seed": 1, "ended": "so", "pods": {"placed": 1}, "fairness": None, "samples": {"a": 1}},
        {"seed": 2, "ended": "so", "pods": {"placed": 3}, "fairness": 0.5, "samples": {"a": 1}},
    ]
    assert measures_of(runs[1]) == {"pods.placed": 3, "fairness": 0.5}
    assert summary(runs) == {
        "pods.placed": {"mean": 2, "plusMinus": pytest.approx(12.706205)},
        "fairness": {"mean": 0.5, "plusMinus": None},
    }


def test_differences_are_taken_seed_by_seed() -> None:
    before: list[Json] = [{"seed": n, "cost": 100.0 * n, "waits": 5.0} for n in (1, 2, 3)]
    after: list[Json] = [
        {"seed": n, "cost": 100.0 * n + more, "waits": 5.0 + waits}
        for n, more, waits in ((1, 9, -1), (2, 10, 0), (3, 11, 1))
    ]
    # Costs of 100 to 300 differ by 9, 10 and 11: 10 +- 4.303 / sqrt(3).
    assert differences(before, after) == {
        "cost": {"mean": 10, "plusMinus": 2.484138, "seen": True},
        "waits": {"mean": 0, "plusMinus": 2.484138, "seen": False},
    }
    one = differences(before[:1], after[:1])
    assert one["cost"] == {"mean": 9, "plusMinus": None, "seen": None}
