"""`moorage explain --ledger`: what a scheduler wrote, read without any cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.running import Finished, Run
from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import VirtualClock
from moorage.kube.live import build_scheduler
from moorage.ledger import Ledger
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Three nodes; a pod that was placed, one that nobody takes, and two of one name."""
    scheduler = build_scheduler(
        default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(1.8e9)
    )
    written = Ledger(directory=tmp_path / "ledger")
    scheduler.record(written.recorder)
    for node in (
        make_node("big", cpu="8"),
        make_node("small", cpu="2"),
        make_node("reef", cpu="8", taints=["rocks:NoSchedule"]),
    ):
        scheduler.handlers.add_node(node)
    for name, namespace, cpu in (
        ("ship", "fleet", "1"),
        ("liner", "fleet", "64"),
        ("tug", "default", "1"),
        ("tug", "navy", "1"),
        ("rib", "fleet", "1"),
        ("rib", "navy", "1"),
    ):
        scheduler.handlers.add_pod(make_pod(name, namespace=namespace, cpu=cpu))
    while scheduler.schedule_one():
        pass
    written.close()
    return tmp_path / "ledger"


def told(done: Finished) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(done.out)
    return answer


def test_a_pod_is_explained_by_its_latest_decision(run: Run, ledger: Path) -> None:
    done = run("explain", "pod", "fleet/liner", "--ledger", str(ledger), "-o", "json")
    assert done.code == 3, done.err
    answer = told(done)
    assert (answer["source"], answer["schedulable"], answer["nodes"]) == ("ledger", False, 3)
    assert answer["message"].startswith("0/3 nodes are available: ")
    assert {(one["plugin"], one["nodes"]) for one in answer["rejections"]} == {
        ("NodeResourcesFit", 3),
        ("TaintToleration", 1),
    }
    assert answer["decision"] == 2
    assert answer["fixes"], "the plugins of the record can be asked what would help"
    assert run("explain", "pod", "fleet/liner", "--ledger", str(ledger), "--no-fixes").code == 3
    text = run("explain", "pod", "fleet/liner", "--ledger", str(ledger)).out
    assert text.startswith("Pod fleet/liner could not be scheduled: 0/3 nodes are available: ")


def test_a_pod_that_was_scheduled_has_its_scores(run: Run, ledger: Path) -> None:
    asked = ("explain", "pod", "fleet/ship", "--ledger", str(ledger))
    done = run(*asked, "-o", "json", "--node", "reef", "--node", "small")
    assert done.code == 0, done.err
    answer = told(done)
    assert answer["node"] == "big"
    assert [score["node"] for score in answer["scores"]] == ["big", "small"]
    reef, small = answer["asked"]
    assert (reef["feasible"], small["feasible"]) == (False, True)
    assert small["total"] < answer["scores"][0]["total"]
    assert "matrix" not in answer
    text = run(*asked, "--node", "reef").out
    assert text.startswith("Pod fleet/ship was scheduled to node big; 2 of 3 nodes could take it.")
    assert "Why not reef: rejected by 1 plugin" in text
    wide = told(run(*asked, "--matrix", "-o", "json"))
    assert [row["node"] for row in wide["matrix"]["rows"]] == ["big", "reef", "small"]


def test_one_file_of_a_ledger_will_do(run: Run, ledger: Path) -> None:
    (file,) = ledger.iterdir()
    assert run("explain", "pod", "fleet/ship", "--ledger", str(file)).code == 0


def test_a_bare_name_is_looked_for_in_default_and_then_anywhere(run: Run, ledger: Path) -> None:
    for name, pod in (("tug", "default/tug"), ("ship", "fleet/ship")):
        done = run("explain", "pod", name, "--ledger", str(ledger), "-o", "json")
        assert told(done)["pod"] == pod
    done = run("explain", "pod", "rib", "--ledger", str(ledger))
    assert done.code == 1
    assert "several pods are called rib: fleet/rib, navy/rib; name one in full" in done.err


def test_decisions_are_listed_and_found_by_number_or_pod(run: Run, ledger: Path) -> None:
    flags = ("--ledger", str(ledger), "-o", "json")
    listed = told(run("explain", "decision", *flags))["items"]
    assert [one["number"] for one in listed] == [6, 5, 4, 3, 2, 1]
    assert len(told(run("explain", "decision", "--limit", "2", *flags))["items"]) == 2
    for which, code in (("1", 0), ("fleet/ship", 0), ("2", 3), ("fleet/liner", 3)):
        done = run("explain", "decision", which, *flags)
        assert done.code == code, done.err
        assert told(done)["decision"]["number"] == (1 if code == 0 else 2)
    text = run("explain", "decision", "1", "--ledger", str(ledger)).out
    assert text.startswith("Decision 1 about pod fleet/ship at 2027-01-1")
    assert "scheduled to big" in text
    table = run("explain", "decision", "--ledger", str(ledger)).out.splitlines()
    assert table[0].split() == ["NUMBER", "TIME", "POD", "RESULT", "NODE", "FEASIBLE", "MESSAGE"]
    assert len(table) == 7


def test_a_node_is_explained_as_the_ledger_leaves_it(run: Run, ledger: Path) -> None:
    done = run("explain", "node", "big", "--ledger", str(ledger), "-o", "json")
    assert done.code == 0, done.err
    answer = told(done)
    assert "fleet/ship" in [pod["pod"] for pod in answer["podList"]]
    (refusal,) = answer["refusals"]
    assert (refusal["pod"], refusal["verdicts"][0]["plugin"]) == ("fleet/liner", "NodeResourcesFit")
    text = run("explain", "node", "reef", "--ledger", str(ledger)).out
    assert text.startswith(
        "When the ledger ended, node reef had 0 pods; of 1 waiting pod it could take 0."
    )


def test_a_node_without_pods_is_known(run: Run, tmp_path: Path) -> None:
    scheduler = build_scheduler(
        default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(1e6)
    )
    written = Ledger(directory=tmp_path)
    scheduler.record(written.recorder)
    for node in (make_node("big", cpu="8"), make_node("small", cpu="2")):
        scheduler.handlers.add_node(node)
    scheduler.handlers.add_pod(make_pod("ship", cpu="4"))
    assert scheduler.schedule_one()
    written.close()
    text = run("explain", "node", "small", "--ledger", str(tmp_path)).out
    assert text.startswith("When the ledger ended, node small had 0 pods; no pod waits.\n")
    done = run("explain", "node", "atlantis", "--ledger", str(tmp_path))
    assert "node atlantis is not one of the 2 nodes that " in done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("pod", "kraken"), "holds no decision about pod kraken"),
        (("pod", "fleet/ship", "--node", "atlantis"), "node atlantis is not one of the 3 nodes"),
        (("node", "atlantis"), "node atlantis is not one of the 3 nodes that "),
        (("decision", "99"), "no decision 99"),
        (("decision", "9" * 18), f"no decision {'9' * 18}"),
        (("decision", "9" * 5000), f"holds no decision about pod {'9' * 5000}"),
        (("decision", "\N{ARABIC-INDIC DIGIT THREE}"), "holds no decision about pod "),
        (("decision", "fleet/kraken"), "holds no decision about pod fleet/kraken"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    run: Run, ledger: Path, words: tuple[str, ...], named: str
) -> None:
    done = run("explain", *words, "--ledger", str(ledger))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert named in done.err


def test_of_a_truncated_ledger_what_can_be_read_is_read(run: Run, ledger: Path) -> None:
    (file,) = ledger.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + whole[40:90])
    done = run("explain", "decision", "1", "--ledger", str(ledger), "-o", "json")
    assert (done.code, told(done)["decision"]["pod"]) == (0, "fleet/ship")
    assert done.err.startswith("moorage: warning: ")
    assert "cut off or damaged at byte" in done.err
    assert done.err.count("\n") == 1


def test_a_ledger_that_is_cut_off_before_its_first_decision_is_one_sentence(
    run: Run, ledger: Path
) -> None:
    (file,) = ledger.iterdir()
    file.write_bytes(file.read_bytes()[:60])
    done = run("explain", "pod", "fleet/ship", "--ledger", str(ledger))
    assert (done.code, done.out) == (1, "")
    warning, error = done.err.splitlines()
    assert "cut off or damaged" in warning
    assert "holds no decision about pod fleet/ship" in error


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data[:8] + b"\x63" + data[9:], "format version 99"),
        (lambda data: b"not a ledger at all, but a text", "is not a ledger"),
    ],
)
def test_a_ledger_of_another_version_is_one_sentence(
    run: Run, ledger: Path, change: Any, named: str
) -> None:
    (file,) = ledger.iterdir()
    file.write_bytes(change(file.read_bytes()))
    for path in (file, ledger):
        done = run("explain", "pod", "fleet/ship", "--ledger", str(path))
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert named in done.err


def test_a_ledger_that_is_not_there_is_one_sentence(run: Run, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        done = run("explain", "pod", "ship", "--ledger", str(path))
        assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
        assert str(path) in done.err
