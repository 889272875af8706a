"""How many calls go out at once: more while that helps, fewer when the server suffers."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api import JumpingTimer, run
from moorage.kube.adaptive_limit import AdaptiveLimit


def _full_round(limit: AdaptiveLimit, seconds: float) -> None:
    """As many calls as may be, all of them at once, each taking so long."""

    async def calls() -> None:
        count = limit.limit
        for _ in range(count):
            await limit.enter()
        for _ in range(count):
            limit.leave(seconds)

    run(calls())


def test_full_rounds_that_go_well_raise_the_limit_up_to_the_most() -> None:
    limit = AdaptiveLimit(JumpingTimer(), least=2, most=6, first=4)
    seen = []
    for _ in range(4):
        _full_round(limit, 0.005)
        seen.append(limit.limit)
    assert seen == [5, 6, 6, 6]


def test_a_limit_that_nobody_reaches_does_not_grow() -> None:
    limit = AdaptiveLimit(JumpingTimer(), least=2, most=64, first=10)

    async def one_by_one() -> None:
        for _ in range(100):
            await limit.enter()
            limit.leave(0.005)

    run(one_by_one())
    assert limit.limit == 10


def test_calls_that_become_much_slower_lower_the_limit_step_by_step() -> None:
    limit = AdaptiveLimit(JumpingTimer(), least=4, most=64, first=32)
    _full_round(limit, 0.005)
    before = limit.limit
    for _ in range(6):
        _full_round(limit, 0.5)
    assert limit.limit < before / 2
    for _ in range(20):
        _full_round(limit, 0.5)
    assert limit.limit >= 4
    settled = limit.limit
    for _ in range(30):
        _full_round(limit, 0.005)
    assert limit.limit > settled


def test_slow_but_steady_calls_are_no_reason_to_send_fewer() -> None:
    limit = AdaptiveLimit(JumpingTimer(), least=2, most=64, first=8)
    for _ in range(10):
        _full_round(limit, 0.3)
    assert limit.limit == 18


def test_a_refusal_halves_the_limit_once_a_second() -> None:
    timer = JumpingTimer()
    limit = AdaptiveLimit(timer, least=4, most=64, first=64)
    for _ in range(20):
        limit.overloaded()
    assert limit.limit == 32
    timer.time += 1.0
    limit.overloaded()
    assert limit.limit == 16
    for _ in range(5):
        timer.time += 1.0
        limit.overloaded()
    assert limit.limit == 4


@pytest.mark.parametrize("cancelled", [0, 1, 2])
def test_whoever_gives_up_waiting_takes_no_place(cancelled: int) -> None:
    async def scenario() -> None:
        limit = AdaptiveLimit(JumpingTimer(), least=1, most=1, first=1)
        await limit.enter()
        tasks = [asyncio.create_task(limit.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        assert limit.is_full
        limit.leave()  # the first of the three has leave now, but has not run yet
        tasks[cancelled].cancel()
        await asyncio.sleep(0)
        others = [task for task in tasks if task is not tasks[cancelled]]
        for task in others:
            await task
            limit.leave()
        assert limit.running == 0
        assert not limit.is_full

    run(scenario())


@given(st.lists(st.integers(0, 3), max_size=120), st.integers(1, 5))
def test_never_more_than_the_limit_and_nobody_is_forgotten(steps: list[int], first: int) -> None:
    async def scenario() -> None:
        timer = JumpingTimer()
        limit = AdaptiveLimit(timer, least=1, most=8, first=first)
        order: list[int] = []
        waiting: list[asyncio.Task[None]] = []
        asked = 0

        async def call(number: int) -> None:
            before = limit.limit
            await limit.enter()
            assert limit.running <= max(before, limit.limit)
            order.append(number)

        for step in steps:
            if step <= 1:
                waiting.append(asyncio.create_task(call(asked)))
                asked += 1
            elif step == 2 and limit.running:
                limit.leave(0.01)
            elif step == 3:
                timer.time += 1
                limit.overloaded()
            await asyncio.sleep(0)
        while len(order) < asked:
            limit.leave(0.01)
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        assert order == sorted(order), "first come, first served"

    run(scenario())
