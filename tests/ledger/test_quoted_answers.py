"""Whoever cannot be asked again, an extender or a plugin of one's own, is quoted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger.made import make_scheduler
from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeRow, NodeView
from moorage.config import load_config
from moorage.engine.scheduler import Scheduler
from moorage.explain.report import DecisionExplanation
from moorage.framework.extenders import Extender, FilterReply
from moorage.framework.plugin import (
    NodeFilterPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status
from moorage.ledger import Ledger, Reader, open_ledger
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: Tide, weight: 3}, {name: Pilot}]
"""
NAMES = ["a", "b", "c", "d", "e"]
tide = {"height": 0}
"""What no ledger knows of."""


class Tide(NodeFilterPlugin, ScorePlugin[None]):
    """Its answers depend on something outside of the cluster."""

    name = "Tide"

    def filter_node(self, pod: Pod, node: NodeRow) -> Reason | None:
        place = NAMES.index(node.node.name)
        if place < tide["height"]:
            code = Code.UNRESOLVABLE if place == 0 else Code.UNSCHEDULABLE
            return Reason(f"under water by {tide['height'] - place}", code)
        return None

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        import numpy as np

        places = [NAMES.index(node.node.name) for node in nodes]
        return np.array([-7 * (place + tide["height"]) for place in places], np.int64)

    def normalize(self, scores: Ints, state: None) -> Ints:
        return 100 + scores


class Pilot(PreFilterPlugin[None]):
    """Leaves out nodes, refuses some pods, and has nothing to say about most."""

    name = "Pilot"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        match pod.labels.get("pilot"):
            case "no":
                return Status(Code.UNRESOLVABLE, ("no pilot aboard",))
            case "some":
                return PreFilterResult(None, frozenset(NAMES[1:4]))
        return SKIP


def started(ledger: Ledger, extenders: Sequence[Extender] = ()) -> Scheduler:
    scheduler = make_scheduler(load_config(CONFIG, "test"), [Tide, Pilot])
    scheduler.cycle.use_extenders(extenders)
    scheduler.record(ledger.recorder)
    # The rows of nodes are not their order: one goes, and the last takes its row.
    for name in ("gone", *NAMES):
        scheduler.handlers.add_node(make_node(name, cpu="8"))
    scheduler.handlers.delete_node(make_node("gone", cpu="8"))
    return scheduler


def decide(scheduler: Scheduler, name: str, height: int, **fields: Any) -> None:
    tide["height"] = height
    scheduler.handlers.add_pod(make_pod(name, **fields))
    assert scheduler.schedule_one()
    scheduler.outbox.clear()
    tide["height"] = 4


def both(ledger: Ledger, folder: Path, number: int) -> DecisionExplanation:
    """What the running ledger tells, which is what its files tell."""
    told = ledger.explain(number, matrix=(0, 9))
    ledger.close()
    reader: Reader = open_ledger(folder)
    assert reader.explain(number, matrix=(0, 9)) == told
    return told


def test_verdicts_and_scores_of_a_plugin_are_as_they_were(tmp_path: Path) -> None:
    ledger = Ledger(directory=tmp_path)
    scheduler = started(ledger)
    decide(scheduler, "web", 2, cpu="1")
    told = both(ledger, tmp_path, 1)
    assert (told.note, told.decision.node, told.decision.feasible) == ("", "c", 3)
    found = {(one.reason, one.code, one.examples) for one in told.rejections}
    assert found == {
        ("under water by 2", "UnschedulableAndUnresolvable", ("a",)),
        ("under water by 1", "Unschedulable", ("b",)),
    }
    parts = {one.node: next(p for p in one.parts if p.plugin == "Tide") for one in told.scores}
    assert {node: (p.raw, p.normalized, p.weighted) for node, p in parts.items()} == {
        "c": (-28, 72, 216),
        "d": (-35, 65, 195),
        "e": (-42, 58, 174),
    }
    assert told.skipped_filter_plugins.count("Pilot") == 1
    assert told.matrix is not None
    assert {row.node: row.feasible for row in told.matrix.rows} == {
        name: name in "cde" for name in NAMES
    }


def test_a_pod_that_a_plugin_refused_or_narrowed_is_told_so(tmp_path: Path) -> None:
    ledger = Ledger(directory=tmp_path)
    scheduler = started(ledger)
    decide(scheduler, "refused", 0, labels={"pilot": "no"})
    decide(scheduler, "narrowed", 0, labels={"pilot": "some"})
    refused, narrowed = ledger.explain(1), both(ledger, tmp_path, 2)
    assert ("Pilot", "PreFilter", "no pilot aboard", 5) in {
        (one.plugin, one.point, one.reason, one.nodes) for one in refused.rejections
    }
    assert (refused.note, narrowed.note) == ("", "")
    assert (narrowed.decision.node, narrowed.decision.feasible) == ("b", 3)
    assert {one.node for one in narrowed.scores} == {"b", "c", "d"}


class Harbour(Extender):
    """Lets pass what is deep enough, and likes one node best."""

    name, filters, prioritizes, weight = "harbour", True, True, 5

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        passing = tuple(node.name for node in nodes if node.name in "bcd")
        if tide["height"] == 4:
            raise AssertionError("nobody may ask again")
        return FilterReply(passing, failed={"a": "too shallow"}, unresolvable={"e": "a reef"})

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        return [(node.name, 10 if node.name == "d" else 1) for node in nodes]


def test_extenders_are_quoted(tmp_path: Path) -> None:
    ledger = Ledger(directory=tmp_path)
    scheduler = started(ledger, [Harbour()])
    decide(scheduler, "web", 0, cpu="1")
    told = both(ledger, tmp_path, 1)
    assert (told.note, told.decision.node, told.decision.feasible) == ("", "d", 3)
    assert {(one.point, one.reason, one.examples) for one in told.rejections} == {
        ("Extender", "too shallow", ("a",)),
        ("Extender", "a reef", ("e",)),
    }
    best = told.scores[0]
    assert (best.node, best.chosen) == ("d", True)
    assert [(p.raw, p.weighted) for p in best.parts if p.plugin == "harbour"] == [(10, 500)]


def test_plugins_that_decide_otherwise_today_are_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger()
    scheduler = make_scheduler()
    scheduler.record(ledger.recorder)
    for name in NAMES:
        scheduler.handlers.add_node(make_node(name, cpu="8"))
    decide(scheduler, "web", 0, cpu="1")
    assert ledger.explain(1).note == ""
    monkeypatch.setattr(
        "moorage.plugins.taint_toleration.TaintToleration.normalize",
        lambda self, scores, state: scores * 0 + 50,
    )
    note = ledger.explain(1).note
    assert note.startswith("Asked again, the plugins choose a, which scores ")
    assert note.endswith(", of 5 feasible nodes: not what was decided then.")
