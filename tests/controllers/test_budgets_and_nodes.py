"""PodDisruptionBudgets' status, and pods whose node or Job has gone."""

from typing import Any

import pytest

from controllers.stage import START, Stage, workload
from moorage.controllers.job import FINALIZER
from moorage.controllers.objects import Json, meta, rfc3339, status

_SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def stage() -> Stage:
    found = Stage()
    found.create("ReplicaSet", "web", workload(4))
    found.settle()
    return found


def _budget(stage: Stage, **spec: Any) -> Json:
    stage.create("PodDisruptionBudget", "b", {"selector": _SELECTOR, **spec})
    stage.settle()
    return status(stage.get("PodDisruptionBudget", "b"))


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 3}, 3, 1),
        ({"minAvailable": 9}, 9, 0),
        ({"minAvailable": "50%"}, 2, 2),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"maxUnavailable": "100%"}, 0, 4),
    ],
)
def test_how_many_may_go(stage: Stage, spec: Json, desired: int, allowed: int) -> None:
    found = _budget(stage, **spec)
    assert (found["currentHealthy"], found["expectedPods"]) == (4, 4)
    assert (found["desiredHealthy"], found["disruptionsAllowed"]) == (desired, allowed)
    (says,) = found["conditions"]
    assert (says["status"], says["reason"]) == (
        ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    )


def test_a_pod_that_is_not_ready_counts_against_it(stage: Stage) -> None:
    _budget(stage, maxUnavailable=1)
    stage.start(stage.all("Pod")[0], ready=False)
    stage.settle()
    found = status(stage.get("PodDisruptionBudget", "b"))
    assert (found["currentHealthy"], found["disruptionsAllowed"]) == (3, 0)


def test_an_eviction_that_was_allowed_counts_until_the_pod_is_gone_or_time_is_up(
    stage: Stage,
) -> None:
    _budget(stage, maxUnavailable=1)
    promised = {stage.names("Pod")[0]: rfc3339(START)}
    changes = {"disruptedPods": promised, "disruptionsAllowed": 0}
    stage.patch("PodDisruptionBudget", "b", status=changes)
    stage.settle()
    assert status(stage.get("PodDisruptionBudget", "b"))["disruptionsAllowed"] == 0
    stage.pass_seconds(121)
    stage.settle()
    found = status(stage.get("PodDisruptionBudget", "b"))
    assert found["disruptionsAllowed"] == 1
    assert "disruptedPods" not in found


def test_no_pods_may_go_where_none_are_expected() -> None:
    stage = Stage()
    found = _budget(stage, maxUnavailable="100%")
    assert (found["expectedPods"], found["disruptionsAllowed"]) == (0, 0)


def test_an_empty_selector_means_all_pods_of_the_namespace(stage: Stage) -> None:
    stage.create("PodDisruptionBudget", "b", {"selector": {}, "minAvailable": 1})
    stage.settle()
    assert status(stage.get("PodDisruptionBudget", "b"))["currentHealthy"] == 4


def test_pods_of_a_deleted_node_end_and_are_replaced() -> None:
    stage = Stage()
    stage.create("Node", "n1", {})
    stage.create("ReplicaSet", "web", workload(2))
    stage.settle()
    lost = stage.names("Pod")
    for name in lost:
        stage.patch("Pod", name, spec={"nodeName": "n1"})
    stage.delete("Node", "n1", "")
    stage.settle()
    assert not set(lost) & set(stage.names("Pod"))
    assert len(stage.active()) == 2


def test_pods_of_a_node_that_was_never_there_stay() -> None:
    stage = Stage()
    stage.create("Pod", "a", {"nodeName": "elsewhere"})
    stage.settle()
    stage.create("Node", "n1", {})
    stage.delete("Node", "n1", "")
    stage.settle()
    assert stage.names("Pod") == ["a"]


def test_a_pod_is_let_go_when_the_job_that_was_to_count_it_is_gone() -> None:
    stage = Stage()
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    stage.create("Pod", "a", {}, finalizers=[FINALIZER, "other"], ownerReferences=[owner])
    stage.settle()
    assert meta(stage.get("Pod", "a"))["finalizers"] == ["other"]
