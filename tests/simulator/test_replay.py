"""Golden cases put to the engine: the corners that the recorded corpus does not have."""

import json
from typing import Any

from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.replay import GoldenLine, replay


def answer(pod: dict[str, Any] | None = None, profile: Any = None, nodes: int = 3) -> Any:
    def node(name: str) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        }

    case = {
        "name": "made-up-1",
        "config": None if profile is None else {"profile": profile},
        "objects": [node(f"node-{i:03}") for i in range(nodes)],
        "pod": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "target", "namespace": "default", "uid": "1"},
            "spec": {"containers": [{"name": "c"}]},
            **(pod or {}),
        },
        "expect": {},
    }
    line = GoldenLine("test", json.dumps(case).encode())
    return replay(line.decode(), in_tree_registry())


def test_one_feasible_node_is_scored_too() -> None:
    told = answer(nodes=1)
    assert told["best"] == ["node-000"]
    assert told["scores"]["node-000"]["total"] > 0


def test_sampling_is_switched_off() -> None:
    told = answer(profile={"percentageOfNodesToScore": 1}, nodes=150)
    assert len(told["scores"]) == len(told["feasible"]) == 150


def test_without_score_plugins_totals_are_zero() -> None:
    told = answer(profile={"plugins": {"score": {"disabled": [{"name": "*"}]}}})
    assert told["noScorePlugins"] is True
    assert told["best"] == told["feasible"] == ["node-000", "node-001", "node-002"]
    assert told["scores"]["node-001"] == {"total": 0, "plugins": {}, "raw": {}}


def test_a_feasible_nomination_is_a_shortcut() -> None:
    told = answer({"status": {"nominatedNodeName": "node-002"}})
    assert told["nominatedShortcut"] == "node-002"
    assert len(told["scores"]) == 3


def test_a_nomination_elsewhere_changes_nothing() -> None:
    told = answer({"status": {"nominatedNodeName": "gone"}})
    assert "nominatedShortcut" not in told


def test_a_cluster_without_nodes_has_its_own_message() -> None:
    told = answer(nodes=0)
    assert told["fitError"] == "no nodes available to schedule pods"
    assert told["feasible"] == []
