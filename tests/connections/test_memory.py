"""Memory that was freed between blocks in use goes back to the system."""

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.fake_api import run
from moorage.connections import memory
from moorage.connections.memory import collect_after_start, give_back_freed_memory

MIB = 2**20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_freed_memory_is_given_back_while_neighbours_live_on() -> None:
    async def scenario() -> None:
        blocks = [bytes(1_000) for _ in range(200_000)]
        kept = blocks[::64]
        del blocks
        before = resident()
        task = asyncio.create_task(give_back_freed_memory(0.001))
        while before - resident() < 100 * MIB:
            await asyncio.sleep(0.001)
        task.cancel()
        assert len(kept) == 3_125

    run(scenario())


def test_without_such_a_call_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "malloc_trim", lambda: None)
    asyncio.run(give_back_freed_memory(1e9))


@pytest.fixture
def not_collecting() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.disable()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.enable()


@pytest.mark.usefixtures("not_collecting")
def test_garbage_is_looked_for_though_a_start_does_not_end() -> None:
    asyncio.run(collect_after_start(0.0))
    assert gc.isenabled()
