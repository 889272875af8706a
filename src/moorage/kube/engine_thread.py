"""The engine in a thread of its own and the event loop: they take turns, and one stands still.

Owns the handing over. While the engine computes, the loop waits for it, as it does for an engine
that runs in the loop's own thread. Where the engine would wait for somebody else it lets the loop
go on (`pause`), and it takes its turn back before it does anything more. So the two never run at
the same time, nothing they share needs a lock, and others come in between in those pauses only.
What may happen then is for the caller to see to.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TypeVar

from moorage.errors import AbandonedError

T = TypeVar("T")


class EngineThread:
    """Runs work that may pause; `paused` is called in the loop whenever it does."""

    def __init__(self, paused: Callable[[], None]) -> None:
        self._paused = paused
        # Each side waits for its lock, which the other side opens.
        self._engine, self._loop = threading.Lock(), threading.Lock()
        self._engine.acquire()
        self._loop.acquire()
        self._thread: threading.Thread | None = None
        self._work: Callable[[], None] | None = None
        self._over: asyncio.Future[None] | None = None
        """Of the work under way: done when it wants its turn back."""
        self._in_pause = False
        self._abandoned = False

    @property
    def at_work(self) -> bool:
        """Is there work under way, if only in a pause?"""
        return self._over is not None

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work; the loop goes on in its pauses. One work at a time.

        `AbandonedError` if it was given up: then nothing is run here any more.
        """
        loop = asyncio.get_running_loop()
        if loop.get_debug():
            # Such a loop refuses calls from other threads, even from one that it waits for.
            return work()
        if self._abandoned:
            raise AbandonedError
        outcome: Future[T] = Future()
        self._work = lambda: _settle(outcome, work)
        self._start()
        over = self._hand_over(loop)
        while not outcome.done():
            try:
                self._paused()
                await over
            except BaseException:
                self._abandoned = True
                raise
            if self._abandoned:
                raise AbandonedError
            over = self._hand_over(loop)
        self._over = None
        return outcome.result()

    @contextmanager
    def pause(self) -> Iterator[bool]:
        """In the engine's thread: let the loop go on meanwhile. Elsewhere it gives False."""
        over = self._over
        if over is None or self._in_pause or threading.current_thread() is not self._thread:
            yield False
            return
        self._in_pause = True
        self._loop.release()
        try:
            yield True
        finally:
            # If the work was abandoned, or the loop is closed, nobody opens the lock any more: this
            # thread stays here until the process ends, since it would never be the engine's turn.
            with suppress(RuntimeError):
                over.get_loop().call_soon_threadsafe(_done, over)
            self._engine.acquire()
            self._in_pause = False

    def abandon(self) -> None:
        """Give up work that is in a pause: it never goes on, and all it shared is the loop's."""
        if self._over is not None:
            self._abandoned = True
            _done(self._over)

    def close(self) -> None:
        """End the thread, if there is one without work."""
        if self._thread is not None and self._over is None:
            self._work = None
            self._engine.release()
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        if self._thread is None:
            # It must not keep a process alive that is to end.
            self._thread = threading.Thread(target=self._serve, name="engine", daemon=True)
            self._thread.start()

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        """The engine's turn; it ends with its work or with a pause, whose end can be awaited."""
        over = self._over = loop.create_future()
        self._engine.release()
        self._loop.acquire()
        return over

    def _serve(self) -> None:
        while True:
            self._engine.acquire()
            if self._work is None:
                return
            self._work()
            self._loop.release()


def _settle(outcome: "Future[T]", work: Callable[[], T]) -> None:
    try:
        outcome.set_result(work())
    except BaseException as error:
        outcome.set_exception(error)


def _done(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)
