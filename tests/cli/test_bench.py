"""`moorage bench engine`: what it prints and how it ends."""

import json

import pytest

from cli.running import Run, Write
from moorage.simulator.workloads import WORKLOADS


@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_workload_places_its_pods(run: Run, workload: str) -> None:
    argv = ["bench", "engine", "--nodes", "30", "--pods", "20", "--workload", workload, "--json"]
    done = run(*argv)
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    assert list(told) == [
        "nodes",
        "pods",
        "workload",
        "placed",
        "pods_per_second",
        "us_per_pod_p50",
        "us_per_pod_p99",
        "cpu_seconds",
        "peak_rss_mib",
    ]
    assert (told["nodes"], told["pods"], told["workload"], told["placed"]) == (30, 20, workload, 20)
    assert told["pods_per_second"] > 0
    assert 0 < told["us_per_pod_p50"] <= told["us_per_pod_p99"]
    assert told["peak_rss_mib"] > 1


def test_pods_that_do_not_fit_are_not_counted_as_placed(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "3", "--pods", "5", "--workload", "antiaffinity"]
    assert run(*argv).out.startswith("antiaffinity: 3 of 5 pods placed on 3 nodes\n")


def test_a_preemptor_counts_as_placed_where_its_victims_make_room(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "3", "--pods", "5", "--workload", "preemption"]
    assert run(*argv).out.startswith("preemption: 3 of 5 pods placed on 3 nodes\n")


def test_devices_are_given_away_once(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "2", "--pods", "9", "--workload", "devices"]
    assert run(*argv).out.startswith("devices: 8 of 9 pods placed on 2 nodes\n")


def test_reuse_can_be_switched_off(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "5", "--pods", "5", "--workload", "basic", "--no-reuse"]
    assert run(*argv).code == 0


@pytest.mark.parametrize(
    "wrong",
    [["--nodes", "0"], ["--pods", "-1"], ["--nodes", "many"], ["--workload", "tsunami"]],
)
def test_arguments_are_checked(run: Run, wrong: list[str]) -> None:
    done = run("bench", "engine", "--nodes", "5", "--pods", "5", *wrong)
    assert done.code == 2
    assert wrong[1] in done.err


def test_a_configuration_without_the_default_scheduler_is_refused(run: Run, write: Write) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: tugmaster}]\n"
    )
    argv = ["bench", "engine", "--nodes", "5", "--pods", "5"]
    done = run(*argv, "--config", write("scheduler.yaml", text))
    assert done.code == 1
    assert "default-scheduler" in done.err
