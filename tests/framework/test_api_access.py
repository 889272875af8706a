"""Without an API reading fails and what is written is dropped; waiting pods are there anyway."""

import inspect

import pytest

from moorage.cluster.listers import Listers
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.errors import ApiError
from moorage.framework.api_access import ApiAccess
from moorage.framework.plugin import Handle
from moorage.framework.status import Status
from moorage.framework.waiting_pods import WaitingPod
from moorage.testing import make_pod


async def note() -> None:
    raise AssertionError("nobody runs this")


@pytest.fixture
def handle() -> Handle:
    return Handle(Listers(), DEFAULT_FEATURE_GATES)


def test_nothing_can_be_asked_and_events_are_dropped(handle: Handle) -> None:
    assert handle.rest_config is None
    handle.event(make_pod("ship"), "Moored", "in the harbour")
    with pytest.raises(ApiError, match="get: there is no API server here"):
        _ = handle.client.get("Pod", "ship")


def test_what_is_left_for_later_is_closed(handle: Handle) -> None:
    work = note()
    handle.run_later(work)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_what_is_left_for_later_waits_for_whoever_runs_it_or_drops_it() -> None:
    access, work = ApiAccess(later=True), note()
    access.run_later(work)
    assert list(access.later) == [work]
    access.drop_later()
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED


def test_waiting_pods_are_settled_by_uid(handle: Handle) -> None:
    outcomes: dict[str, Status | None] = {}
    for name in ("a", "b"):
        waiting = WaitingPod(make_pod(name), "n1", {"P": (10.0, 10.0)})
        handle.waiting.add(waiting)
        waiting.when_settled(lambda outcome, name=name: outcomes.update({name: outcome}))  # type: ignore[misc]
    handle.waiting.allow(make_pod("a").uid, "P")
    handle.waiting.reject(make_pod("b").uid, "P", "too late")
    handle.waiting.allow("nobody", "P")
    handle.waiting.reject("nobody", "P", "too late")
    assert outcomes.pop("a") is None
    refusal = outcomes["b"]
    assert refusal is not None
    assert (refusal.plugin, refusal.message) == ("P", "too late")
    assert not len(handle.waiting)
