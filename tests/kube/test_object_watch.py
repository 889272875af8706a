"""A watch of one object: an event that says nothing costs its line alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kube.fake_api import JumpingTimer, run
from moorage.kube.client import Read
from moorage.kube.object_watch import follow_object
from moorage.kube.requests import Request
from moorage.kube.resources import resource_for


class OneStream:
    """A client whose only watch sends these lines, and then nothing more."""

    def __init__(self, *lines: bytes) -> None:
        self._lines = list(lines)
        self.watches = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Read]:
        del request
        self.watches += 1

        async def read() -> bytes:
            if not self._lines:
                await asyncio.Event().wait()
            return self._lines.pop(0) + b"\n"

        yield read


@pytest.mark.parametrize("object_", [b"null", b"5", b"undefined", b'{"metadata":', b'"\xff"'])
def test_an_event_without_an_object_is_skipped_and_the_watch_goes_on(object_: bytes) -> None:
    async def scenario() -> None:
        good = b'{"type":"MODIFIED","object":{"metadata":{"name":"lease"}}}'
        client = OneStream(b'{"type":"MODIFIED","object":%s}' % object_, good)
        seen: list[tuple[str, Any]] = []
        changed = asyncio.Event()

        def on_change(kind: str, obj: Any) -> None:
            seen.append((kind, obj))
            changed.set()

        watch = follow_object(
            client,
            resource_for("Lease"),
            "kube-system",
            "lease",
            on_change,
            timer=JumpingTimer(),
            random=Random(1),
        )
        task = asyncio.create_task(watch)
        await changed.wait()
        task.cancel()
        assert seen == [("MODIFIED", {"metadata": {"name": "lease"}})]
        assert client.watches == 1

    run(scenario())
