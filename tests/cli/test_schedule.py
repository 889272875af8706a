"""`moorage schedule`: what it prints and how it ends."""

import io
import json

import pytest
import yaml

from cli.running import NODE, POD, Run, Write
from moorage.errors import PluginError

TOO_LARGE = POD.replace("ship", "tanker").replace('"1"', '"64"')


def test_a_pod_that_fits_is_shown_with_its_node(run: Run, write: Write) -> None:
    done = run("schedule", "-f", write("c.yaml", f"{NODE}---\n{POD}"))
    assert done == (
        0,
        "NAMESPACE  POD   NODE    MESSAGE\n"
        "fleet      ship  quay-1\n"
        "\n"
        "1 pod to schedule: 1 placed\n",
        "",
    )


def test_a_pod_that_fits_nowhere_is_shown_with_the_reason(run: Run, write: Write) -> None:
    done = run("schedule", "-f", write("c.yaml", f"{NODE}---\n{TOO_LARGE}"))
    assert done.code == 0
    assert (
        "fleet      tanker  <pending>  0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    ) in done.out
    assert done.out.endswith("1 pod to schedule: 1 pending\n")


def test_fail_pending_turns_pending_pods_into_an_exit_code(run: Run, write: Write) -> None:
    assert run("schedule", "-f", write("a.yaml", f"{NODE}---\n{POD}"), "--fail-pending").code == 0
    full = write("b.yaml", f"{NODE}---\n{TOO_LARGE}")
    assert run("schedule", "-f", full, "--fail-pending").code == 3


def test_wide_output_adds_priority_feasible_nodes_and_score(run: Run, write: Write) -> None:
    two = NODE.replace("quay-1", "quay-2")
    done = run("schedule", "-o", "wide", "-f", write("c.yaml", f"{NODE}---\n{two}---\n{POD}"))
    header, row, *_ = done.out.splitlines()
    assert header.split() == [
        "NAMESPACE",
        "POD",
        "NODE",
        "PRIORITY",
        "FEASIBLE",
        "SCORE",
        "MESSAGE",
    ]
    assert row.split()[:5] == ["fleet", "ship", "quay-1", "0", "2"]
    assert int(row.split()[5]) > 0


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_structured_output_holds_the_same_facts(run: Run, write: Write, output: str) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD}---\n{TOO_LARGE}")
    done = run("schedule", "-f", path, "-o", output)
    told = json.loads(done.out) if output == "json" else yaml.safe_load(done.out)
    placed, pending = told["pods"]
    assert (placed["namespace"], placed["name"], placed["node"]) == ("fleet", "ship", "quay-1")
    assert (placed["outcome"], placed["message"]) == ("Placed", "")
    assert (pending["outcome"], pending["node"]) == ("Pending", None)
    assert pending["message"].startswith("0/1 nodes are available")
    assert told["evictions"] == []
    assert {key: told["summary"][key] for key in ("pods", "placed", "pending")} == {
        "pods": 2,
        "placed": 1,
        "pending": 1,
    }


def test_files_may_be_repeated_and_folders_are_searched(run: Run, write: Write) -> None:
    node = write("nodes.yaml", NODE)
    write("pods/a.yaml", POD)
    pods = write("pods/deep/b.yml", POD.replace("ship", "boat")).removesuffix("/deep/b.yml")
    done = run("schedule", "-f", node, "-f", pods)
    assert done.out.endswith("2 pods to schedule: 2 placed\n")


def test_a_dash_reads_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{NODE}---\n{POD}"))
    assert run("schedule", "-f", "-").out.endswith("1 pod to schedule: 1 placed\n")


def test_lists_of_any_kind_are_taken_apart(run: Run, write: Write) -> None:
    node, pod = yaml.safe_load(NODE), yaml.safe_load(POD)
    del pod["kind"], pod["apiVersion"]
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [pod]}
    listed = {"apiVersion": "v1", "kind": "List", "items": [node, pods]}
    done = run("schedule", "-f", write("c.json", json.dumps(listed)))
    assert done.out.endswith("1 pod to schedule: 1 placed\n")


def test_unknown_kinds_are_skipped_with_one_warning(run: Run, write: Write) -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n---\n"
    chart = "apiVersion: charts.example/v1\nkind: Chart\nmetadata: {name: bay}\n---\n"
    path = write("c.yaml", other % "a" + other % "b" + chart + NODE + "---\n" + POD)
    done = run("schedule", "-f", path)
    assert done.code == 0
    assert done.err == (
        "moorage: warning: skipped 3 objects of kinds that do not matter to a scheduler: "
        "Chart (1), ConfigMap (2)\n"
    )
    assert done.out.endswith("1 placed\n")


def test_a_cluster_without_waiting_pods_is_said_to_be_one(run: Run, write: Write) -> None:
    assert run("schedule", "-f", write("c.yaml", NODE)).out == "no pods to schedule\n"


def test_without_nodes_pods_stay_pending(run: Run, write: Write) -> None:
    done = run("schedule", "-f", write("c.yaml", POD))
    assert "<pending>  no nodes available to schedule pods" in done.out


def test_no_file_is_wrong_usage(run: Run) -> None:
    done = run("schedule")
    assert done.code == 2
    assert "-f" in done.err


def test_a_pod_that_failed_with_an_error_makes_the_exit_code_1(
    run: Run, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise PluginError("Plank", "Reserve", "it broke")

    monkeypatch.setattr("moorage.simulator.offline.reserve", fail)
    done = run("schedule", "-f", write("c.yaml", f"{NODE}---\n{POD}"))
    assert done.code == 1
    assert "1 failed with an error" in done.out
