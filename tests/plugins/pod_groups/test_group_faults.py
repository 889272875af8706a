"""A fault in the cycle of a pod group concerns this group alone: its pods are tried again."""

from collections.abc import Callable
from typing import Any

import pytest

from moorage.engine.observer import ERROR
from moorage.engine.recording import DecisionRecorder
from moorage.errors import CorruptStateError
from moorage.framework.extenders import Extender
from moorage.framework.placements import PlacementGeneratePlugin, PlacementScorePlugin
from moorage.framework.plugin import Plugin
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import GANGS, PLACEMENTS, World, make_group, member

MEMBERS = {"m1", "m2", "m3"}


class _Extender(Extender):
    """An extender that no pod is meant for."""

    name = "elsewhere"
    filters = prioritizes = binds = preempts = False

    def is_interested(self, pod: Any) -> bool:
        return False


# What the cycle calls outside of plugins.
PLACES: dict[str, Callable[[World], Any]] = {
    "observer.attempt_begins": lambda world: world.scheduler.observer,
    "observer.algorithm_finished": lambda world: world.scheduler.observer,
    "observer.group_algorithm_finished": lambda world: world.scheduler.observer,
    "observer.group_attempt_finished": lambda world: world.scheduler.observer,
    "recorder.attempt_ended": lambda world: world.scheduler.recorder,
    "recorder.forgotten": lambda world: world.scheduler.recorder,
    "scheduler.reserve": lambda world: world.scheduler,
    "observer.placement_evaluated": lambda world: world.scheduler.observer,
    "cycle.attempt": lambda world: world.scheduler.cycle,
    "scheduler.skip": lambda world: world.scheduler,
    "scheduler.hold": lambda world: world.scheduler,
    "scheduler.place": lambda world: world.scheduler,
    "groups.forget": lambda world: world.scheduler.groups,
    "groups.get": lambda world: world.scheduler.groups,
    "groups.assume": lambda world: world.scheduler.groups,
    "extender.is_interested": lambda world: world.scheduler.cycle.extenders[0],
}


def gang_of_three(gates: tuple[str, ...]) -> World:
    """Three pods that fit, a pod of no group, and everybody who could be told of them."""
    world = World(gates)
    world.scheduler.recorder = DecisionRecorder()
    world.scheduler.cycle.use_extenders((_Extender(),))
    world.add(make_node("n1", cpu="8"), make_group(min_count=3))
    world.add(*(member(name) for name in sorted(MEMBERS)), make_pod("other", cpu="1"))
    return world


def fails(target: Any, name: str, call: int, error: BaseException) -> Callable[[], bool]:
    """Let a method fail at one of its calls; tells whether it did."""
    method, calls = getattr(target, name), 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            raise error
        return method(*args, **kwargs)

    setattr(target, name, failing)
    return lambda: calls >= call


@pytest.mark.parametrize("gates", [GANGS, PLACEMENTS], ids=lambda gates: gates[-1])
@pytest.mark.parametrize("call", [1, 2, 3])
@pytest.mark.parametrize("place", PLACES)
def test_the_pods_of_the_group_are_tried_again_and_the_others_go_on(
    place: str, call: int, gates: tuple[str, ...]
) -> None:
    world = gang_of_three(gates)
    happened = fails(PLACES[place](world), place.partition(".")[2], call, KeyError("a fault"))
    world.run()
    assert "other" in world.bound
    in_flight = {pod.name for pod in world.scheduler.queue.view.pending_pods().in_flight}
    assert in_flight <= world.places, "a pod that has no place waits in the queue"
    if happened() and not world.bound.keys() & MEMBERS:
        reasons = {failure.reason for failure in world.failures}
        assert "SchedulerError" in reasons
    world.pass_time(20)
    assert world.bound.keys() == {*MEMBERS, "other"}
    assert world.places == set(world.bound)
    assert not world.scheduler.queue.view.pending_pods().in_flight


def test_a_fault_is_said_of_every_pod_and_counted() -> None:
    world = gang_of_three(GANGS)
    results: list[str] = []
    world.scheduler.observer.attempt_failed = (  # type: ignore[method-assign]
        lambda result, profile, seconds: results.append(result)
    )
    fails(world.scheduler.observer, "group_algorithm_finished", 1, KeyError("a fault"))
    world.run()
    assert results == [ERROR] * 3
    said = {(failure.pod.name, failure.reason, failure.message) for failure in world.failures}
    assert said == {(name, "SchedulerError", "KeyError: 'a fault'") for name in MEMBERS}


def test_a_pod_that_cannot_even_be_given_up_does_not_stop_the_others() -> None:
    world = gang_of_three(GANGS)
    fails(world.scheduler.observer, "group_algorithm_finished", 1, KeyError("a fault"))
    fails(world.scheduler.observer, "attempt_failed", 1, KeyError("another"))
    world.run()
    assert set(world.bound) == {"other"}
    assert len(world.failures) == 2
    assert not world.scheduler.queue.view.pending_pods().in_flight


@pytest.mark.parametrize("method", ["skip", "place"])
def test_corrupt_state_still_ends_the_process(method: str) -> None:
    world = gang_of_three(GANGS)
    fails(world.scheduler, method, 1, CorruptStateError("only a restart helps"))
    with pytest.raises(CorruptStateError):
        world.run()


def _raise(*_: Any) -> Any:
    raise GeneratorExit


_FILE = f"({__file__}:"
_FAULTY: dict[str, tuple[type[Plugin], dict[str, Any], str]] = {
    "placements": (
        PlacementGeneratePlugin,
        {"generate_placements": lambda *_: [5]},
        'PlacementGenerate plugin "Faulty": the answer is [5] instead of Placements or a Status',
    ),
    "scores": (
        PlacementScorePlugin,
        {"score_placement": lambda *_: float("nan")},
        'PlacementScore plugin "Faulty": the answer is [nan, nan] instead of an integer for each',
    ),
    "too few scores": (
        PlacementScorePlugin,
        {"score_placement": lambda *_: 5, "normalize_placements": lambda *_: []},
        'PlacementScore plugin "Faulty": the answer is [] instead of an integer for each of 2',
    ),
    "what ends a task": (
        PlacementScorePlugin,
        {"score_placement": lambda *_: 5, "normalize_placements": _raise},
        'PlacementScore plugin "Faulty": GeneratorExit',
    ),
}


@pytest.mark.parametrize(("point", "methods", "said"), _FAULTY.values(), ids=_FAULTY)
def test_a_plugins_fault_about_placements_names_plugin_and_place(
    point: type[Plugin], methods: dict[str, Any], said: str
) -> None:
    plugin = type("Faulty", (point,), {"name": "Faulty", "__module__": __name__, **methods})
    generates = point is PlacementGeneratePlugin
    where = "placementGenerate" if generates else "placementScore"
    others = "disabled: [{name: '*'}], " if generates else ""
    config = f"profiles: [{{plugins: {{{where}: {{{others}enabled: [{{name: Faulty}}]}}}}}}]"
    world = World(PLACEMENTS, config, [plugin])
    world.add(make_node("n1", labels={"zone": "a"}), make_group(min_count=1, topology="zone"))
    world.add(make_node("n2", labels={"zone": "b"}), member("m1"))
    world.run()
    (message,) = world.messages("m1")
    assert said in message
    assert _FILE in message
