"""A pod with thousands of affinity terms is decided on in time proportional to them."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from moorage.config import default_config
from moorage.simulator.world import World
from moorage.testing import make_node, make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod_with_terms(kind: str, terms: int) -> Any:
    listed = [
        {"topologyKey": f"key-{number}", "labelSelector": {"matchLabels": {"app": "a"}}}
        for number in range(terms)
    ]
    return make_pod("many", labels={"app": "a"}, spec={"affinity": {kind: {REQUIRED: listed}}})


def calls_of(work: Callable[[], object]) -> int:
    """How many calls of Python functions something takes."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def calls_to_decide(kind: str, terms: int) -> int:
    world = World(default_config())
    world.add_all([make_node("n1", cpu="4"), make_pod("other", spec={"nodeName": "n1"})])
    profile = world.profiles["default-scheduler"]
    pod = pod_with_terms(kind, terms)
    return calls_of(lambda: world.cycle.attempt(profile, pod)[0])


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_twice_as_many_terms_are_about_twice_the_work(kind: str) -> None:
    some, twice, four_times = (calls_to_decide(kind, terms) for terms in (200, 400, 800))
    assert four_times - twice < 3 * (twice - some)
