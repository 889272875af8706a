"""Jobs: so many pods at a time until enough have succeeded; every pod counts exactly once."""

from typing import Any

import pytest

from controllers.stage import Stage
from moorage.controllers.job import FINALIZER, INDEX
from moorage.controllers.objects import Json, annotations, condition, meta, status


@pytest.fixture
def stage() -> Stage:
    return Stage()


def job(completions: int | None = 1, parallelism: int = 1, **more: Any) -> Json:
    """The spec of a Job, with the API server's defaults."""
    container = {"name": "c", "image": "busybox"}
    template = {"metadata": {"labels": {"job-name": "j"}}, "spec": {"containers": [container]}}
    wanted = {} if completions is None else {"completions": completions}
    selector = {"matchLabels": {"job-name": "j"}}
    own: Json = {"parallelism": parallelism, "backoffLimit": 6, "selector": selector}
    return {**wanted, **own, "template": template, **more}


def _finish(stage: Stage, count: int = 1000, phase: str = "Succeeded") -> None:
    stage.settle()
    for pod in stage.active()[:count]:
        stage.finish(pod, phase)
    stage.settle()


def _has(stage: Stage, kind: str) -> Json | None:
    return condition(stage.get("Job", "j"), kind)


@pytest.mark.parametrize(
    ("completions", "parallelism", "at_once"), [(1, 1, 1), (5, 2, 2), (3, 10, 3), (4, 4, 4)]
)
def test_it_is_complete_when_enough_pods_have_succeeded(
    stage: Stage, completions: int, parallelism: int, at_once: int
) -> None:
    stage.create("Job", "j", job(completions, parallelism))
    stage.settle()
    assert len(stage.active()) == at_once
    for _ in range(completions):
        _finish(stage)
    found = status(stage.get("Job", "j"))
    assert found["succeeded"] == completions
    assert found["completionTime"]
    assert found["uncountedTerminatedPods"] == {}
    assert len(stage.all("Pod")) == completions
    complete = _has(stage, "Complete")
    assert complete is not None
    assert (complete["status"], complete["reason"]) == ("True", "CompletionsReached")
    assert stage.events[-1] == "Completed: Job completed"


def test_a_work_queue_ends_when_one_has_succeeded_and_none_is_left(stage: Stage) -> None:
    stage.create("Job", "j", job(None, 3))
    _finish(stage, 1)
    assert len(stage.active()) == 2
    assert _has(stage, "Complete") is None
    _finish(stage)
    assert _has(stage, "Complete") is not None


def test_a_pod_counts_although_it_is_deleted_right_after_its_end(stage: Stage) -> None:
    stage.create("Job", "j", job(2, 1))
    _finish(stage)
    (ended,) = [pod for pod in stage.all("Pod") if status(pod)["phase"] == "Succeeded"]
    assert "finalizers" not in meta(ended)
    stage.delete("Pod", meta(ended)["name"])
    _finish(stage)
    assert status(stage.get("Job", "j"))["succeeded"] == 2


def test_pods_wait_with_a_finalizer_until_they_are_counted(stage: Stage) -> None:
    stage.create("Job", "j", job())
    stage.settle()
    (pod,) = stage.all("Pod")
    assert meta(pod)["finalizers"] == [FINALIZER]


def test_after_a_failure_it_tries_again_later_and_later(stage: Stage) -> None:
    stage.create("Job", "j", job())
    for wait in (10, 20, 40):
        _finish(stage, phase="Failed")
        assert stage.active() == []
        stage.pass_seconds(wait - 1)
        stage.settle()
        assert stage.active() == []
        stage.pass_seconds(2)
        stage.settle()
        assert len(stage.active()) == 1
    assert status(stage.get("Job", "j"))["failed"] == 3


def test_too_many_failures_end_it(stage: Stage) -> None:
    stage.create("Job", "j", job(3, 2, backoffLimit=1))
    for _ in range(2):
        _finish(stage, 1, phase="Failed")
        stage.pass_seconds(600)
    stage.settle()
    failed = _has(stage, "Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"
    assert failed["message"] == "Job has reached the specified backoff limit"
    assert stage.active() == []
    assert status(stage.get("Job", "j"))["failed"] == 2


def test_it_ends_when_its_time_is_up(stage: Stage) -> None:
    stage.create("Job", "j", job(activeDeadlineSeconds=60))
    stage.settle()
    stage.pass_seconds(60)
    stage.settle()
    failed = _has(stage, "Failed")
    assert failed is not None
    assert failed["reason"] == "DeadlineExceeded"
    assert stage.all("Pod") == []


def test_indexed_pods_have_numbers_and_each_number_succeeds_once(stage: Stage) -> None:
    stage.create("Job", "j", job(4, 2, completionMode="Indexed"))
    stage.settle()
    assert [annotations(pod)[INDEX] for pod in stage.all("Pod")] == ["0", "1"]
    first, second = stage.all("Pod")
    assert first["spec"]["hostname"] == "j-0"
    assert first["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    stage.finish(second)
    stage.settle()
    assert status(stage.get("Job", "j"))["completedIndexes"] == "1"
    assert [annotations(pod)[INDEX] for pod in stage.active()] == ["0", "2"]
    stage.finish(first, "Failed")
    stage.settle()
    stage.pass_seconds(10)
    stage.settle()
    assert [annotations(pod)[INDEX] for pod in stage.active()] == ["0", "2"]
    _finish(stage)
    _finish(stage)
    found = status(stage.get("Job", "j"))
    assert (found["completedIndexes"], found["succeeded"], found["failed"]) == ("0-3", 4, 1)
    assert _has(stage, "Complete") is not None


def test_suspended_it_has_no_pods_and_none_counts_as_failed(stage: Stage) -> None:
    stage.create("Job", "j", job(3, 3))
    stage.settle()
    stage.patch("Job", "j", spec={"suspend": True})
    stage.settle()
    assert stage.all("Pod") == []
    found = status(stage.get("Job", "j"))
    assert "failed" not in found
    assert "startTime" not in found
    suspended = _has(stage, "Suspended")
    assert suspended is not None
    assert suspended["status"] == "True"
    stage.patch("Job", "j", spec={"suspend": False})
    stage.settle()
    assert len(stage.active()) == 3


def test_less_parallelism_takes_pods_away_that_do_not_count(stage: Stage) -> None:
    stage.create("Job", "j", job(9, 5))
    stage.settle()
    stage.patch("Job", "j", spec={"parallelism": 2})
    stage.settle()
    assert len(stage.active()) == 2
    assert "failed" not in status(stage.get("Job", "j"))


def test_it_goes_some_time_after_its_end(stage: Stage) -> None:
    stage.create("Job", "j", job(ttlSecondsAfterFinished=30))
    _finish(stage)
    stage.pass_seconds(29)
    stage.settle()
    assert stage.names("Job") == ["j"]
    stage.pass_seconds(1)
    stage.settle()
    assert stage.names("Job") == []


def test_one_that_others_manage_is_left_alone(stage: Stage) -> None:
    stage.create("Job", "j", job(managedBy="example.com/queue"))
    stage.settle()
    assert stage.all("Pod") == []
