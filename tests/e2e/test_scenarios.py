"""Each scenario runs once with kube-scheduler and once with Moorage; both must show the same."""

from collections.abc import Callable
from types import ModuleType

import pytest
import yaml

from e2e.client import Json
from e2e.cluster import ControlPlane
from e2e.scenarios import (
    devices,
    extenders,
    gangs,
    gated,
    lifecycle,
    load,
    placement,
    preemption,
    requeueing,
    volumes,
)
from e2e.schedulers import PEER, Scheduler, subject
from e2e.trial import Trial, label, trial

_MODULES = (
    placement,
    requeueing,
    lifecycle,
    preemption,
    volumes,
    extenders,
    devices,
    gangs,
    gated,
    load,
)
# What Moorage cannot do yet; kube-scheduler itself runs these too, so that they stay sound.
_NOT_YET: tuple[ModuleType, ...] = ()
_SCENARIOS = [
    pytest.param(
        scenario,
        id=label(scenario),
        marks=pytest.mark.skipif(
            module in _NOT_YET and subject() != PEER, reason="Moorage does not do this yet"
        ),
    )
    for module in _MODULES
    for scenario in module.SCENARIOS
]


@pytest.mark.parametrize("scenario", _SCENARIOS)
def test_both_schedulers_show_the_same(
    scenario: Callable[[Trial], Json],
    server: ControlPlane,
    scheduler: Callable[[str], Scheduler],
) -> None:
    seen = {}
    name = label(scenario)
    for role, who in (("peer", PEER), ("subject", subject())):
        with trial(server, scheduler(who), f"{name}-{role}") as stage:
            seen[role] = scenario(stage)
        file = server.folder / f"{name}.{role}.yaml"
        file.write_text(yaml.safe_dump(seen[role], sort_keys=False, width=1000))
    assert seen["subject"] == seen["peer"]
