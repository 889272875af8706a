"""Decisions written on pods: once per change, on the pod that was meant, and never in the way."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kube.fake_api import JumpingTimer
from moorage.explain.report import DecisionExplanation, DecisionSummary
from moorage.framework.profile import Profile
from moorage.kube import annotations as annotations_module
from moorage.kube.annotations import HISTORY, PREFIX, AnnotationWriter, Results, results
from secure_port.explained import Stage, run_stage, until


@asynccontextmanager
async def writing(stage: Stage) -> AsyncIterator[AnnotationWriter]:
    writer = AnnotationWriter(stage.live.scheduler, stage.ledger, stage.client, JumpingTimer())
    stage.live.informers.add_handler("Pod", writer)
    try:
        yield writer
    finally:
        await writer.close()


def written(stage: Stage, name: str) -> dict[str, str]:
    pod = stage.pod(name)
    assert pod is not None
    return pod.metadata.annotations


def test_the_same_refusal_again_is_not_written_again_but_another_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        async with writing(stage):
            await stage.create_pod("large", cpu="8")
            await until(
                lambda: stage.pod("large") is not None and HISTORY in written(stage, "large")
            )
            pod = stage.pod("large")
            assert pod is not None
            stage.live.scheduler.queue.activate([pod])
            stage.live.wake()
            await until(lambda: len(stage.ledger.summaries(pod="default/large")) == 2)
            # One after the other: when this one is written, the other has had its turn.
            await stage.create_pod("small")
            await stage.bound("small")
            await until(lambda: HISTORY in written(stage, "small"))
            assert len(json.loads(written(stage, "large")[HISTORY])) == 1
            await stage.create_node("berth", cpu="2")
            await until(lambda: "berth" in stage.live.scheduler.state.nodes.row_of)
            pod = stage.pod("large")
            assert pod is not None
            stage.live.scheduler.queue.activate([pod])
            stage.live.wake()
            await until(lambda: len(json.loads(written(stage, "large")[HISTORY])) == 2)
            filters = json.loads(written(stage, "large")[f"{PREFIX}filter-result"])
            assert set(filters) == {"berth", "quay"}

    run_stage(scenario)


def test_a_decision_about_another_pod_of_the_same_name_or_none_is_not_written() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        async with writing(stage) as writer:
            await stage.create_pod("a")
            await stage.bound("a")
            await until(lambda: HISTORY in written(stage, "a"))
            before = written(stage, "a")
            # A decision about an earlier pod of the same name.
            (first,) = stage.ledger.summaries(pod="default/a")
            for summary in (_changed(first, uid="another"), _changed(first, pod="default/none")):
                writer._decided(summary)
            await stage.create_pod("b")
            await stage.bound("b")
            await until(lambda: HISTORY in written(stage, "b"))
            assert written(stage, "a") == before

    run_stage(scenario)


def test_an_unexpected_error_about_one_pod_does_not_end_the_writing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def picky(told: DecisionExplanation, profile: Profile) -> Results:
        if told.decision.pod == "default/a":
            raise RuntimeError("no such berth")
        return results(told, profile)

    monkeypatch.setattr(annotations_module, "results", picky)

    async def scenario(stage: Stage) -> None:
        await stage.create_node("quay")
        async with writing(stage):
            for name in ("a", "b"):
                await stage.create_pod(name)
                await stage.bound(name)
            await until(lambda: HISTORY in written(stage, "b"))
            assert not written(stage, "a")
        assert "annotations of pod default/a could not be made or written" in caplog.text
        assert "no such berth" in caplog.text

    run_stage(scenario)


def _changed(summary: DecisionSummary, *, uid: str = "", pod: str = "") -> DecisionSummary:
    return DecisionSummary(
        number=summary.number,
        time=summary.time,
        pod=pod or summary.pod,
        result="unschedulable",
        profile=summary.profile,
        uid=uid or summary.uid,
    )


def test_of_too_many_decisions_the_oldest_are_given_up() -> None:
    async def scenario(stage: Stage) -> None:
        async with writing(stage) as writer:
            for number in range(annotations_module.MOST_WAITING + 5):
                for result in ("scheduled", "unschedulable"):
                    writer._decided(
                        DecisionSummary(number, 0.0, f"default/{result}-{number}", result, "none")
                    )
            assert len(writer._ready) == len(writer._unbound) == annotations_module.MOST_WAITING
            assert "default/unschedulable-4" not in writer._ready
            assert "default/scheduled-5" in writer._unbound

    run_stage(scenario)
