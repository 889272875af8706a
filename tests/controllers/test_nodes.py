"""Taints that follow from a node's conditions, and pods that leave a node because of them."""

from typing import Any

import pytest

from controllers.stage import NAMESPACE, Stage
from moorage.controllers.objects import Json, condition, spec


@pytest.fixture
def stage() -> Stage:
    found = Stage()
    found.create("Node", "n1", {})
    return found


def _says(stage: Stage, kind: str, state: str) -> None:
    stage.patch("Node", "n1", "", status={"conditions": [{"type": kind, "status": state}]})
    stage.settle()


def _taints(stage: Stage) -> list[str]:
    taints = spec(stage.get("Node", "n1", "")).get("taints") or []
    return [f"{one['key'].removeprefix('node.kubernetes.io/')}:{one['effect']}" for one in taints]


def _pod(stage: Stage, *tolerations: Json) -> None:
    stage.create("Pod", "p", {"nodeName": "n1", "tolerations": list(tolerations)})
    stage.settle()


def _is_there(stage: Stage) -> bool:
    return stage.cluster.get("Pod", NAMESPACE, "p") is not None


@pytest.mark.parametrize(
    ("kind", "state", "taints"),
    [
        ("Ready", "True", []),
        ("Ready", "False", ["not-ready:NoExecute", "not-ready:NoSchedule"]),
        ("Ready", "Unknown", ["unreachable:NoExecute", "unreachable:NoSchedule"]),
        ("DiskPressure", "True", ["disk-pressure:NoSchedule"]),
        ("MemoryPressure", "False", []),
    ],
)
def test_conditions_become_taints_and_go_with_them(
    stage: Stage, kind: str, state: str, taints: list[str]
) -> None:
    _says(stage, kind, state)
    assert _taints(stage) == taints
    _says(stage, "Ready", "True")
    assert _taints(stage) == []


def test_a_cordoned_node_has_a_taint_and_those_of_others_stay(stage: Stage) -> None:
    mine = {"key": "team", "value": "a", "effect": "NoSchedule"}
    stage.patch("Node", "n1", "", spec={"unschedulable": True, "taints": [mine]})
    stage.settle()
    assert _taints(stage) == ["team:NoSchedule", "unschedulable:NoSchedule"]
    stage.patch("Node", "n1", "", spec={"unschedulable": None})
    stage.settle()
    assert _taints(stage) == ["team:NoSchedule"]


def test_a_pod_that_does_not_tolerate_it_leaves_at_once(stage: Stage) -> None:
    _pod(stage)
    _says(stage, "Ready", "Unknown")
    assert not _is_there(stage)
    assert stage.events == ["TaintManagerEviction: Marking for deletion Pod default/p"]


def _toleration(**more: Any) -> Json:
    key = "node.kubernetes.io/unreachable"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **more}


def test_a_pod_stays_as_long_as_it_tolerates_it(stage: Stage) -> None:
    _pod(stage, _toleration(tolerationSeconds=300))
    _says(stage, "Ready", "Unknown")
    stage.pass_seconds(299)
    stage.settle()
    assert _is_there(stage)
    stage.pass_seconds(1)
    stage.settle()
    assert not _is_there(stage)


def test_a_node_that_comes_back_in_time_keeps_its_pods(stage: Stage) -> None:
    _pod(stage, _toleration(tolerationSeconds=300))
    _says(stage, "Ready", "Unknown")
    stage.pass_seconds(200)
    _says(stage, "Ready", "True")
    _says(stage, "Ready", "Unknown")
    stage.pass_seconds(200)  # the time began anew
    stage.settle()
    assert _is_there(stage)
    assert condition(stage.get("Pod", "p"), "DisruptionTarget") is None


def test_a_pod_that_tolerates_it_for_ever_stays(stage: Stage) -> None:
    _pod(stage, _toleration())
    _says(stage, "Ready", "Unknown")
    stage.pass_seconds(100_000)
    stage.settle()
    assert _is_there(stage)
