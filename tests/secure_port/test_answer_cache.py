"""Kept answers: never too many, never too old, asked for once, and no answer lost to a quitter."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube.fake_api import run
from moorage.http.reviews import AnswerCache


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), max_size=40),
)
def test_the_cache_agrees_with_a_plain_list(size: int, steps: list[tuple[int, int]]) -> None:
    """Each step lets some time pass and asks for a key; answers last 5."""
    now = 0.0
    asked: list[int] = []
    reference: list[tuple[int, float]] = []  # key and end, the least recently used first

    async def scenario() -> None:
        nonlocal now
        cache: AnswerCache[int, int] = AnswerCache(size, lambda answer: 5.0, now=lambda: now)

        async def answer(key: int) -> int:
            asked.append(key)
            return key * 10 + 1

        for key, passed in steps:
            now += passed
            before = len(asked)
            assert await cache.get(key, lambda key=key: answer(key)) == key * 10 + 1  # type: ignore[misc]
            known = [entry for entry in reference if entry[0] == key and entry[1] > now]
            assert (len(asked) == before) == bool(known)
            reference[:] = [entry for entry in reference if entry[0] != key]
            reference.append(known[0] if known else (key, now + 5.0))
            del reference[: max(0, len(reference) - size)]
            assert len(cache) <= size

    run(scenario())


def test_those_who_ask_at_once_share_one_answer_even_if_the_first_goes_away() -> None:
    async def scenario() -> None:
        cache: AnswerCache[str, int] = AnswerCache(10, lambda answer: 60.0)
        gate = asyncio.Event()
        calls = 0

        async def slow() -> int:
            nonlocal calls
            calls += 1
            await gate.wait()
            return 7

        first = asyncio.create_task(cache.get("k", slow))
        others = [asyncio.create_task(cache.get("k", slow)) for _ in range(3)]
        while not calls:
            await asyncio.sleep(0)
        first.cancel()
        gate.set()
        assert await asyncio.gather(*others) == [7, 7, 7]
        assert calls == 1
        with pytest.raises(asyncio.CancelledError):
            await first

    run(scenario())


def test_a_failure_is_told_to_all_who_wait_and_not_kept() -> None:
    async def scenario() -> None:
        cache: AnswerCache[str, int] = AnswerCache(10, lambda answer: 60.0)

        async def broken() -> int:
            raise ValueError("no")

        async def good() -> int:
            return 1

        results = await asyncio.gather(
            *(cache.get("k", broken) for _ in range(3)), return_exceptions=True
        )
        assert [str(result) for result in results] == ["no"] * 3
        assert await cache.get("k", good) == 1

    run(scenario())


def test_closing_gives_up_what_is_asked() -> None:
    async def scenario() -> None:
        cache: AnswerCache[str, int] = AnswerCache(10, lambda answer: 60.0)

        async def never() -> int:
            await asyncio.Event().wait()
            return 0

        waiting = asyncio.create_task(cache.get("k", never))
        await asyncio.sleep(0)
        await cache.close()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(scenario())
