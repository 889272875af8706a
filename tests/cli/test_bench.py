"""`moorage bench engine`: what it prints and how it ends."""

import json
from pathlib import Path

import pytest

from cli.running import Run, Write
from moorage.benchmarks.workloads import WORKLOADS
from moorage.cli.arguments import workloads


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
        "loading_seconds",
        "pods_per_second",
        "us_per_pod_p50",
        "us_per_pod_p99",
        "us_per_pod_mean",
        "cpu_us_per_pod_first",
        "cpu_us_per_pod_last",
        "last_to_first",
        "bare_pass_us_p50",
        "bare_pass_us_mean",
        "to_bare_pass_p50",
        "to_bare_pass_mean",
        "cpu_seconds",
        "peak_rss_mib",
    ]
    assert (told["nodes"], told["pods"], told["workload"], told["placed"]) == (30, 20, workload, 20)
    assert told["pods_per_second"] > 0
    assert 0 < told["us_per_pod_p50"] <= told["us_per_pod_p99"]
    assert told["peak_rss_mib"] > 1


def test_the_help_names_every_workload(run: Run) -> None:
    assert list(workloads()) == list(WORKLOADS)
    for benchmark in ("engine", "api"):
        assert all(f"\n  {name} " in run("bench", benchmark, "--help").out for name in WORKLOADS)


def test_the_first_and_the_last_pods_and_a_bare_pass_are_compared(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "30", "--pods", "60", "--workload", "mixed"]
    told = json.loads(run(*argv, "--json", "--times").out)
    took = [nanoseconds / 1000 for nanoseconds in told["ns_by_pod"]]
    assert told["us_per_pod_mean"] == pytest.approx(sum(took) / 60, abs=0.1)
    first, last = told["cpu_us_per_pod_first"], told["cpu_us_per_pod_last"]
    assert told["last_to_first"] == pytest.approx(last / first, abs=0.01)
    assert 10 * first + 20 * last <= told["cpu_seconds"] * 1e6 + 1000
    for kind in ("p50", "mean"):
        ratio = told[f"us_per_pod_{kind}"] / told[f"bare_pass_us_{kind}"]
        assert told[f"to_bare_pass_{kind}"] == pytest.approx(ratio, abs=0.01)
    shown = run(*argv).out
    assert "bare NumPy passes of" in shown
    assert "last third of the pods" in shown


@pytest.mark.parametrize("workload", ["mixed", "preemption", "devices"])
def test_a_workload_can_be_written_for_moorage_schedule(
    run: Run, tmp_path: Path, workload: str
) -> None:
    folder = str(tmp_path / "new" / workload)
    argv = ["bench", "engine", "--nodes", "20", "--pods", "10", "--workload", workload]
    done = run(*argv, "--write", folder)
    assert (done.code, done.out, done.err) == (0, "", "")
    placed = run("schedule", "-f", folder, "-o", "json")
    assert json.loads(placed.out)["summary"]["placed"] == 10


def test_a_workload_that_cannot_be_written_is_one_sentence(run: Run, write: Write) -> None:
    file = write("taken", "")
    done = run("bench", "engine", "--nodes", "2", "--pods", "1", "--write", file)
    assert (done.code, done.err) == (1, f"moorage: error: {file}: cannot be written: File exists\n")


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


def test_the_cost_of_metrics_is_told_from_runs_without_and_with_them(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "5", "--pods", "10", "--metrics", "--cost", "1"]
    done = run(*argv)
    assert done.code == 0, done.err
    first, head, without, switched, cost, legend = done.out.splitlines()
    assert first == "basic: 10 pods on 5 nodes, 1 runs each"
    assert head.split() == ["PODS/S", "MEDIAN", "BEST", "RUN", "UNDISTURBED"]
    assert without.split()[0] == "without"
    assert switched.split()[0] == "--metrics"
    assert cost.split()[0] == "cost"
    assert legend.startswith("  undisturbed: as if every decision")
    told = json.loads(run(*argv, "--ledger", "--json").out)
    assert told["switches"] == ["--metrics", "--ledger"]
    assert told["with"]["pods_per_second"] > 0


def test_every_decision_can_be_told_by_itself(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "5", "--pods", "10", "--json"]
    assert "ns_by_pod" not in json.loads(run(*argv).out)
    told = json.loads(run(*argv, "--times").out)
    assert len(told["ns_by_pod"]) == 10
    assert sorted(told["ns_by_pod"])[4] / 1000 == pytest.approx(told["us_per_pod_p50"], abs=0.1)


def test_a_cost_is_the_cost_of_something(run: Run) -> None:
    done = run("bench", "engine", "--nodes", "5", "--pods", "10", "--cost", "1")
    assert done.code == 1
    assert done.err == "moorage: error: --cost: of what? Say --metrics, --ledger or both\n"


def test_a_configuration_that_cannot_be_read_is_told_once(run: Run) -> None:
    argv = ["bench", "engine", "--nodes", "5", "--pods", "10", "--metrics", "--cost", "1"]
    done = run(*argv, "--config", "/nowhere/scheduler.yaml")
    assert done.code == 1
    assert done.err.count("moorage: error:") == 1
    assert "/nowhere/scheduler.yaml" in done.err
