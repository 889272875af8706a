"""How much work a decision is, counted and not timed: what keeps the engine fast stays in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moorage.benchmarks.workloads import WORKLOADS, made_before, make_pod
from moorage.config import default_config
from moorage.engine.decisions import Bind
from moorage.framework.attempt import AttemptResult
from moorage.framework.fast_path import is_cacheable
from moorage.framework.profile import Profile
from moorage.simulator.world import World

NODES = 2000
WARM, MEASURED = 30, 40
BOUND_WORKLOADS = ["basic", "spread", "prefspread", "affinity", "antiaffinity", "prefaffinity"]


class Stage:
    """A world in which pods of a workload are placed one after the other."""

    def __init__(self, workload: str) -> None:
        self.world = World(default_config())
        kind = WORKLOADS[workload]
        self.world.add_all(made_before(kind, NODES, WARM + MEASURED))
        self.pods = [make_pod(index, kind) for index in range(WARM + MEASURED)]
        self.profile: Profile = self.world.profiles["default-scheduler"]
        for pod in self.pods[:WARM]:
            self.place(pod)

    def place(self, pod: Any) -> AttemptResult:
        cycle = self.world.cycle
        decision, attempt = cycle.attempt(self.profile, pod)
        assert isinstance(decision, Bind)
        assert attempt is not None
        self.world.state.assume(pod, decision.node_name)
        return attempt

    def run(self) -> None:
        for pod in self.pods[WARM:]:
            self.place(pod)


def counted(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, weigh: Callable[..., int]
) -> list[int]:
    """Calls of a method, each with what it weighs."""
    calls: list[int] = []
    inner = getattr(owner, name)

    def call(*args: Any) -> Any:
        calls.append(weigh(*args))
        return inner(*args)

    monkeypatch.setattr(owner, name, call)
    return calls


@pytest.mark.parametrize("workload", BOUND_WORKLOADS)
def test_pods_of_one_kind_take_the_fast_path(workload: str) -> None:
    stage = Stage(workload)
    cacheable = {name for name, plugin in stage.profile.plugins.items() if is_cacheable(plugin)}
    for pod in stage.pods[WARM:]:
        attempt = stage.place(pod)
        assert attempt.kept.keys() == cacheable


@pytest.mark.parametrize("workload", BOUND_WORKLOADS)
def test_plugins_with_kept_answers_are_asked_about_the_one_row_that_changed(
    workload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(workload)
    fit = stage.profile.plugins["NodeResourcesFit"]
    columns = [
        counted(monkeypatch, fit, name, lambda pod, nodes, state: len(nodes))
        for name in ("filter", "score")
    ]
    rows = counted(monkeypatch, fit, "rejects_row", lambda *_: 1)
    stage.run()
    assert columns == [[], []], "no whole column is worked out again"
    assert sum(rows) == MEASURED, "one row per pod that was placed"


def test_domain_sums_are_not_summed_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage("spread")
    summed = counted(monkeypatch, np, "bincount", lambda codes, *_, **__: len(codes))
    stage.run()
    assert summed == []
