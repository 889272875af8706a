"""What every thread and every asyncio task is doing now, as text.

Owns the walking of frames; what is made of the stacks is `profiling`'s business.
"""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Iterable
from types import FrameType
from typing import NamedTuple

_DEPTH = 128

Stack = tuple[str, ...]
"""Frames as `function (file:line)`, the outermost first."""


class Running(NamedTuple):
    """A thread or a task with its stack."""

    title: str
    stack: Stack


def frames(frame: FrameType | None) -> Stack:
    """A frame and all that called it."""
    found: list[str] = []
    while frame is not None and len(found) < _DEPTH:
        code = frame.f_code
        found.append(f"{code.co_qualname} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return tuple(reversed(found))


def threads(besides: int = 0) -> list[Running]:
    """All threads but the one with this id."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        Running(f"thread {ident} {names.get(ident, '')!r}", frames(frame))
        for ident, frame in sys._current_frames().items()
        if ident != besides
    ]


def tasks() -> list[Running]:
    """All tasks of the running loop; where one waits is what matters, not who created it."""
    return [_task(task) for task in asyncio.all_tasks()]


def _task(task: "asyncio.Task[object]") -> Running:
    found = [
        f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
        for frame in _awaited(task)
    ]
    return Running(f"task {task.get_name()!r}", tuple(found))


def _awaited(task: "asyncio.Task[object]") -> Iterable[FrameType]:
    """The frames of a waiting task: of its coroutine, and of each that this one awaits."""
    inner: object = task.get_coro()
    for _ in range(_DEPTH):
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "gi_frame", None)
        if frame is None:
            return
        yield frame
        inner = getattr(inner, "cr_await", None) or getattr(inner, "gi_yieldfrom", None)


def grouped(running: Iterable[Running]) -> str:
    """Equal stacks once, with how many there are of them."""
    counts = Counter(one.stack for one in running)
    parts = [
        f"{count} @\n" + "".join(f"#\t{frame}\n" for frame in reversed(stack))
        for stack, count in counts.most_common()
    ]
    return f"goroutine profile: total {counts.total()}\n" + "\n".join(parts)


def listed(running: Iterable[Running]) -> str:
    """Every stack by itself."""
    return "\n".join(
        f"{one.title}:\n" + "".join(f"\t{frame}\n" for frame in reversed(one.stack))
        for one in running
    )
