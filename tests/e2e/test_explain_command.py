"""`moorage explain` beside the real thing: the same reasons as kube-scheduler's, and no traces."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from e2e.cluster import ControlPlane
from e2e.instance import Instance, instance, let_read
from e2e.schedulers import MOORAGE, PEER, Scheduler
from e2e.trial import Trial, trial

_SOURCE = Path(__file__).parents[2] / "src"
_SECONDS = 60
# The token of a user whose every request is in the audit log.
_AUDITED = "shadow"


class Told(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON it printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def explain(*words: str | Path) -> Told:
    """Run the command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "moorage", "explain", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        env=os.environ | {"PYTHONPATH": str(_SOURCE)},
    )
    assert "Traceback" not in done.stderr
    return Told(done.returncode, done.stdout, done.stderr)


def _set_up(run: Trial) -> None:
    """Four nodes, three of which are against a large pod for reasons of their own."""
    run.add_node("near", cpu="2")
    run.add_node("small", cpu="1")
    run.add_node("tainted", cpu="8", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
    run.add_node("cordoned", cpu="8", unschedulable=True)
    run.add_bound("guest", "near", cpu="500m")


@pytest.fixture(scope="module")
def stage(server: ControlPlane, scheduler: Callable[[str], Scheduler]) -> Iterator[Trial]:
    """A cluster in which kube-scheduler has placed one pod and refused another."""
    with trial(server, scheduler(PEER), "explain") as run:
        run.start()
        _set_up(run)
        run.place("fits", cpu="1")
        run.add_pod("large", cpu="4")
        run.refused("large")
        run.stop()
        run.add_pod("waiting", cpu="250m")
        yield run


def test_the_sentence_is_the_one_that_kube_scheduler_wrote(
    server: ControlPlane, stage: Trial
) -> None:
    told = explain(
        "pod", f"{stage.namespace}/large", "--kubeconfig", server.admin_kubeconfig, "-o", "json"
    )
    assert told.code == 3, told.err
    answer = told.answer
    (condition,) = stage.pod("large")["status"]["conditions"]
    assert answer["message"] == condition["message"]
    assert (answer["schedulable"], answer["nodes"], answer["source"]) == (False, 4, "cluster")
    rejections = {(one["plugin"], one["reason"]): one["nodes"] for one in answer["rejections"]}
    assert rejections == {
        ("NodeResourcesFit", "Insufficient cpu"): 2,
        ("TaintToleration", "node(s) had untolerated taint(s)"): 1,
        ("NodeUnschedulable", "node(s) were unschedulable"): 1,
    }
    assert any(fix["verified"] and fix["nodesGained"] for fix in answer["fixes"])


def test_a_fix_applied_to_the_cluster_helps(
    server: ControlPlane, stage: Trial, scheduler: Callable[[str], Scheduler]
) -> None:
    asked = ("pod", f"{stage.namespace}/large", "--kubeconfig", server.admin_kubeconfig)
    fixes = explain(*asked, "-o", "json").answer["fixes"]
    fix = next(one for one in fixes if {edit["kind"] for edit in one["edits"]} == {"Node"})
    (edit,) = fix["edits"]
    before = stage.api.get("Node", edit["name"])["spec"]
    stage.api.call(
        "PATCH",
        f"/api/v1/nodes/{edit['name']}",
        edit["patch"],
        content_type="application/json-patch+json",
    )
    try:
        told = explain(*asked, "-o", "json")
        assert (told.code, told.answer["node"]) == (0, edit["name"])
    finally:
        stage.change_node(edit["name"], {"spec": {"taints": None, "unschedulable": None} | before})


def test_pods_on_nodes_and_nodes_are_explained(server: ControlPlane, stage: Trial) -> None:
    flags = ("--kubeconfig", server.admin_kubeconfig, "-o", "json")
    told = explain("pod", f"{stage.namespace}/fits", *flags)
    assert told.code == 0, told.err
    assert (told.answer["placed"], told.answer["node"]) == (True, stage.bound("fits"))
    assert told.answer["scores"]
    told = explain("node", "near", *flags)
    assert {pod["pod"] for pod in told.answer["podList"]} >= {f"{stage.namespace}/guest"}
    assert [one["pod"] for one in told.answer["refusals"]] == [f"{stage.namespace}/large"]


def test_the_cluster_is_only_read(server: ControlPlane, stage: Trial) -> None:
    told = explain("pod", f"{stage.namespace}/large", "--kubeconfig", server.kubeconfig(_AUDITED))
    assert told.code == 3, told.err
    verbs = {
        entry["verb"]
        for entry in server.audited("moorage/")
        if entry["user"]["uid"] == _AUDITED and entry["userAgent"].endswith("/explain")
    }
    assert verbs == {"list"}


def test_without_rights_there_is_one_sentence(server: ControlPlane, stage: Trial) -> None:
    for name in (f"{stage.namespace}/large", "large"):
        told = explain("pod", name, "--kubeconfig", server.kubeconfig("stranger"))
        assert (told.code, told.out, told.err.count("\n")) == (1, "", 1)
        assert 'is forbidden: User "stranger" cannot ' in told.err


# A running Moorage.


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("explain") / "ledger"


@pytest.fixture(scope="module")
def live(
    server: ControlPlane, stage: Trial, scheduler: Callable[[str], Scheduler], ledger: Path
) -> Iterator[Instance]:
    """Moorage at the same cluster, after it has placed one more pod."""
    let_read(server)
    flags = ("--leader-elect=false", f"--ledger={ledger}")
    with instance(scheduler(MOORAGE), server, "explain", *flags) as running:
        stage.bound("waiting")
        yield running


def _port(live: Instance) -> tuple[str, ...]:
    return ("--server", f"https://127.0.0.1:{live.port}", "--insecure-skip-tls-verify")


def test_a_running_scheduler_says_the_same_and_more(
    server: ControlPlane, stage: Trial, live: Instance
) -> None:
    name = f"{stage.namespace}/large"
    read = explain("pod", name, "--kubeconfig", server.admin_kubeconfig, "-o", "json").answer
    asked = ("pod", name, *_port(live), "--token", server.tokens["reader"])
    told = explain(*asked, "-o", "json")
    assert told.code == 3, told.err
    answer = told.answer
    assert answer["source"] == "live"
    for field in ("pod", "schedulable", "nodes", "message", "rejections"):
        assert answer[field] == read[field], field
    assert [fix["change"] for fix in answer["fixes"]] == [fix["change"] for fix in read["fixes"]]
    assert answer["queue"]["state"] in ("unschedulable", "backoff", "active", "inFlight")
    assert answer["queue"]["attempts"] >= 1
    text = explain(*asked)
    assert "Queue\n" in text.out


def test_a_running_scheduler_tells_nothing_without_rights(
    server: ControlPlane, stage: Trial, live: Instance
) -> None:
    name = f"{stage.namespace}/large"
    for flags, named in (
        (("--token", server.tokens["stranger"]), "does not allow it: "),
        (("--token", "wrong"), "does not accept the credentials"),
    ):
        told = explain("pod", name, *_port(live), *flags)
        assert (told.code, told.out, told.err.count("\n")) == (1, "", 1)
        assert named in told.err
        assert "Insufficient" not in told.err


def test_decisions_are_told_by_the_scheduler_and_by_its_ledger(
    server: ControlPlane, stage: Trial, live: Instance, ledger: Path
) -> None:
    name = f"{stage.namespace}/waiting"
    node = stage.bound("waiting")
    asked = ("decision", name, "-o", "json")
    told = explain(*asked, *_port(live), "--token", server.tokens["reader"])
    assert told.code == 0, told.err
    assert told.answer["decision"]["node"] == node
    # A running ledger is written after a while of rest.
    written = live.wait("the ledger", lambda: _read(explain(*asked, "--ledger", ledger)))
    assert written["decision"] == told.answer["decision"]
    assert written["scores"] == told.answer["scores"]
    large = explain("pod", f"{stage.namespace}/large", "--ledger", ledger, "-o", "json")
    assert large.code == 3, large.err
    assert {one["plugin"] for one in large.answer["rejections"]} == {
        *("NodeResourcesFit", "TaintToleration", "NodeUnschedulable")
    }


def _read(told: Told) -> dict[str, Any] | None:
    return told.answer if told.code == 0 else None
