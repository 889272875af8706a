"""`moorage bench api` against the embedded API server: what it measures, refuses and removes."""

import json
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cli.running import Run
from moorage.apiserver.resources import BY_PLURAL
from moorage.apiserver.server import ApiServer

MOORAGE = f"{shlex.quote(sys.executable)} -m moorage scheduler"


def python(code: str, *words: str) -> str:
    """A scheduler command that runs some Python."""
    return shlex.join([sys.executable, "-c", code, *words])


def left_behind(server: ApiServer) -> list[str]:
    """The objects that no cluster has from the beginning."""
    permanent = {"default", "kube-system", "kube-public", "kube-node-lease", "default/kubernetes"}
    return [
        f"{storage} {stored.key}"
        for storage, stored in server.store.everything()
        if not (storage in ("namespaces", "services") and stored.key in permanent)
        and not stored.name.startswith("system-")
    ]


def load(server: ApiServer, nodes: int, pods: int, *more: str) -> tuple[str, ...]:
    where = ("bench", "api", "--server", server.url)
    return (*where, "--nodes", str(nodes), "--pods", str(pods), *more)


def test_moorage_binds_all_pods_and_nothing_is_left_behind(
    run: Run, server: ApiServer, tmp_path: Path
) -> None:
    plot = tmp_path / "plot.svg"
    done = run(*load(server, 20, 30, "--json", "--plot", str(plot)))
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert (told["nodes"], told["pods"], told["workload"]) == (20, 30, "basic")
    (measured,) = told["runs"]
    assert (measured["scheduler"], measured["pods"]) == ("moorage", 30)
    assert len(measured["bound_at"]) == 30
    assert measured["bound_at"] == sorted(measured["bound_at"])
    assert 0 < measured["seconds_to_first_binding"] <= measured["bound_at"][0] + 0.001
    assert measured["cpu_seconds"] > 0
    assert measured["cpu_ms_per_pod"] == pytest.approx(measured["cpu_seconds"] * 1000 / 30, 0.1)
    assert measured["peak_rss_mib"] > 20
    assert 0 < measured["latency_ms_p50"] <= measured["latency_ms_p90"]
    assert measured["raw_bindings_per_second"] > 0
    assert told["medians"]["moorage"]["pods_per_second"] == measured["pods_per_second"]
    assert "nodes created: 20 in" in done.err
    assert left_behind(server) == []
    lines = ET.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 1


@pytest.mark.parametrize("workload", ["mixed", "distinct", "statefulset", "bound"])
def test_ordinary_workloads_are_measured_too(run: Run, server: ApiServer, workload: str) -> None:
    argv = ("--workload", workload, "--timeout", "30", "--json")
    told = json.loads(run(*load(server, 50, 10, *argv)).out)
    assert (told["workload"], len(told["runs"][0]["bound_at"])) == (workload, 10)


def test_pods_may_be_on_nodes_before_and_need_a_place_there(run: Run, server: ApiServer) -> None:
    done = run(*load(server, 2, 3, "--bound", "215"))
    assert done.code == 0, done.err
    assert "bound pods created: 215 in" in done.err
    assert done.out.startswith("basic: 3 pods on 2 nodes with 215 pods on them\n")
    assert left_behind(server) == []
    refused = run(*load(server, 2, 3, "--bound", "218"))
    assert refused.code == 1
    assert refused.err == (
        "moorage: error: --nodes 2 has room for 220 pods, not for the 221 of --bound and --pods\n"
    )


def test_what_a_workload_has_beside_its_nodes_is_still_there_when_the_scheduler_starts(
    run: Run, server: ApiServer
) -> None:
    code = (
        "import json, sys, urllib.request as url\n"
        "pods = json.load(url.urlopen(sys.argv[1] + '/api/v1/pods'))['items']\n"
        "print(sum('nodeName' in pod['spec'] for pod in pods), 'pods are on nodes')"
    )
    lister = python(code, server.url)
    done = run(*load(server, 3, 2, "--workload", "bound", "--scheduler", lister))
    assert "60 pods are on nodes" in done.err


def test_two_schedulers_take_turns_and_pods_may_come_while_they_run(
    run: Run, server: ApiServer
) -> None:
    more = ("--versus", MOORAGE, "--rounds", "1", "--while-running", "--workload", "preemption")
    done = run(*load(server, 4, 3, *more))
    assert done.code == 0, done.err
    header = done.out.splitlines()[1].split()
    assert header == ["moorage", "moorage-2", "RATIO"]
    assert left_behind(server) == []


def test_a_scheduler_that_ends_by_itself_is_shown_with_its_log_and_its_arguments(
    run: Run, server: ApiServer
) -> None:
    code = "import sys; print(open(sys.argv[1]).read()); print(sys.argv[2]); sys.exit(3)"
    command = python(code, "{config}", "--kubeconfig={kubeconfig}")
    done = run(*load(server, 2, 3, "--scheduler", command))
    assert done.code == 1
    assert "ended with code 3; the end of its log is above" in done.err
    assert "qps: 5000" in done.err
    assert "--kubeconfig=/" in done.err
    assert left_behind(server) == []


def test_a_scheduler_that_binds_nothing_runs_out_of_time(run: Run, server: ApiServer) -> None:
    command = python("import signal; signal.pause()")
    done = run(*load(server, 2, 3, "--scheduler", command, "--timeout", "1"))
    assert done.code == 1
    assert "bound 0 of 3 pods within 1 s (--timeout)" in done.err
    assert left_behind(server) == []


def test_a_cluster_with_nodes_is_left_alone_unless_that_is_meant(
    run: Run, server: ApiServer
) -> None:
    first = load(server, 1, 1, "--scheduler", python("import signal; signal.pause()"))
    nodes = BY_PLURAL["", "v1", "nodes"]
    server.operations.create(nodes, "", {"metadata": {"name": "lighthouse"}})
    done = run(*first)
    assert done.code == 1
    assert "has nodes already" in done.err
    assert "--with-existing-nodes" in done.err
    assert left_behind(server) == ["nodes lighthouse"]


def test_a_server_that_does_not_answer_is_said_in_one_sentence(run: Run) -> None:
    done = run("bench", "api", "--server", "http://127.0.0.1:1", "--nodes", "1", "--pods", "1")
    assert (done.code, done.out) == (1, "")
    assert done.err == (
        "moorage: error: the API server http://127.0.0.1:1 cannot be reached: connection refused\n"
    )


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("", "is empty"),
        ("'unclosed", "cannot be read"),
        ("/no/such/scheduler", "cannot be started"),
    ],
)
def test_a_command_that_cannot_be_started_is_said_in_one_sentence(
    run: Run, server: ApiServer, command: str, complaint: str
) -> None:
    done = run(*load(server, 1, 1, "--scheduler", command or " "))
    assert done.code == 1
    assert complaint in done.err
    assert left_behind(server) == []


def test_missing_programs_of_a_control_plane_are_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    done = run("bench", "api", "--start", "--nodes", "1", "--pods", "1")
    assert done.code == 1
    assert f"etcd and kube-apiserver were not found ({tmp_path})" in done.err
