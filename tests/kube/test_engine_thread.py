"""Engine and event loop take turns: never both at once, and the loop goes on in the pauses."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.errors import AbandonedError
from moorage.kube.engine_thread import EngineThread

SECONDS = 30


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(SECONDS):
            await work

    asyncio.run(bounded())


class Elsewhere:
    """Somebody whose answer is waited for until the test gives it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: Future[str] = Future()
        self.turns = EngineThread(self.asked.set)

    def ask(self) -> str:
        """What the engine does in the middle of its work."""
        with self.turns.pause():
            return self.answer.result(SECONDS)


def test_the_loop_goes_on_while_the_engine_waits() -> None:
    async def scenario() -> None:
        other = Elsewhere()
        work = asyncio.create_task(other.turns.run(lambda: f"I heard {other.ask()}"))
        await other.asked.wait()
        assert not work.done()
        other.answer.set_result("yes")
        assert await work == "I heard yes"
        other.turns.close()

    run(scenario())


def test_what_fails_fails_in_the_loop_and_the_next_work_is_done() -> None:
    async def scenario() -> None:
        other = Elsewhere()
        work = asyncio.create_task(other.turns.run(other.ask))
        await other.asked.wait()
        other.answer.set_exception(KeyError("what"))
        with pytest.raises(KeyError, match="what"):
            await work
        with pytest.raises(ZeroDivisionError):
            await other.turns.run(lambda: 1 // 0)
        assert await other.turns.run(lambda: 7) == 7
        other.turns.close()

    run(scenario())


def test_a_pause_within_a_pause_is_one_pause() -> None:
    async def scenario() -> None:
        other = Elsewhere()

        def work() -> str:
            with other.turns.pause():
                return other.ask()

        running = asyncio.create_task(other.turns.run(work))
        await other.asked.wait()
        other.answer.set_result("yes")
        assert await running == "yes"
        other.turns.close()

    run(scenario())


def test_outside_of_work_a_pause_is_nothing() -> None:
    async def scenario() -> None:
        other = Elsewhere()
        other.answer.set_result("yes")
        assert other.ask() == "yes"
        assert await other.turns.run(lambda: 1) == 1
        assert other.ask() == "yes"
        assert not other.asked.is_set()
        other.turns.close()

    run(scenario())


def test_abandoned_work_never_goes_on() -> None:
    async def scenario() -> None:
        other, went_on = Elsewhere(), threading.Event()

        def work() -> None:
            other.ask()
            went_on.set()

        running = asyncio.create_task(other.turns.run(work))
        await other.asked.wait()
        other.turns.abandon()
        with pytest.raises(AbandonedError):
            await running
        other.answer.set_result("too late")
        with pytest.raises(AbandonedError):
            await other.turns.run(lambda: None)
        other.turns.close()
        assert not went_on.is_set()

    run(scenario())


def test_cancelled_work_never_goes_on_either() -> None:
    async def scenario() -> None:
        other = Elsewhere()
        running = asyncio.create_task(other.turns.run(other.ask))
        await other.asked.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        other.answer.set_result("too late")
        with pytest.raises(AbandonedError):
            await other.turns.run(lambda: None)

    run(scenario())


def test_its_thread_ends_when_it_is_closed_and_begins_again() -> None:
    async def scenario() -> None:
        turns = EngineThread(lambda: None)
        first = await turns.run(threading.current_thread)
        assert first is not threading.current_thread()
        assert first.daemon, "it must not keep a process alive"
        turns.close()
        assert not first.is_alive()
        second = await turns.run(threading.current_thread)
        assert second is not first
        turns.close()

    run(scenario())


def test_a_loop_that_is_being_debugged_does_the_work_itself() -> None:
    async def scenario() -> None:
        asyncio.get_running_loop().set_debug(True)
        thread = await EngineThread(lambda: None).run(threading.current_thread)
        assert thread is threading.current_thread()

    run(scenario())


@settings(deadline=None)
@given(
    works=st.lists(st.lists(st.booleans(), max_size=4), min_size=1, max_size=5),
    others=st.integers(0, 3),
)
def test_they_never_run_at_the_same_time(works: list[list[bool]], others: int) -> None:
    """Everybody looks around at every step; a pause is real (True) or over at once (False)."""
    at_work: set[str] = set()
    clashes: list[set[str]] = []
    steps = 0

    def alone(name: str) -> None:
        nonlocal steps
        at_work.add(name)
        for _ in range(20):
            steps += 1
            if len(at_work) > 1:
                clashes.append(set(at_work))
        at_work.discard(name)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        turns = EngineThread(lambda: alone("paused"))

        def work(pauses: list[bool]) -> int:
            for real in pauses:
                alone("engine")
                with turns.pause():
                    if real:
                        # Answered by the loop, so that it would stand still for ever otherwise.
                        answer: Future[None] = Future()
                        loop.call_soon_threadsafe(answer.set_result, None)
                        answer.result(SECONDS)
            alone("engine")
            return len(pauses)

        tasks = [asyncio.create_task(_again_and_again(loop_step)) for _ in range(others)]
        for pauses in works:
            assert await turns.run(partial(work, pauses)) == len(pauses)
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        turns.close()

    async def loop_step() -> None:
        alone("loop")

    run(scenario())
    assert not clashes
    assert steps


async def _again_and_again(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await step()
        await asyncio.sleep(0)
