"""/debug/pprof: Python's counterparts of Go's profiles, for whoever may ask.

Every profile is bounded in time and size, and only one that runs for a while runs at a time: a
debugging page must not become the scheduler's main work. Knows nothing of what it looks at.
"""

import asyncio
import gc
import json
import sys
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from types import FrameType
from typing import NamedTuple

from aiohttp import web

from moorage.http.answers import error_text, text_answer
from moorage.http.endpoints import Route

_DEPTH = 128

Stack = tuple[str, ...]
"""Frames as `function (file:line)`, the outermost first."""
Query = Mapping[str, str]
PREFIX = "/debug/pprof/"
LONGEST = 300.0
_SAMPLE_EVERY = 0.01
_TRACE_EVERY = 0.002
_MOST_EVENTS = 200_000
_MOST_OBJECTS = 5_000_000
_OBJECTS_AT_ONCE = 20_000
_SHOWN = 100
_TRACED_FRAMES = 8


class Running(NamedTuple):
    """A thread or a task with its stack."""

    title: str
    stack: Stack


def frames(frame: FrameType | None) -> Stack:
    """A frame and all that called it."""
    found: list[str] = []
    while frame is not None and len(found) < _DEPTH:
        found.append(_shown(frame))
        frame = frame.f_back
    return tuple(reversed(found))


def _shown(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"


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
    return [
        Running(f"task {task.get_name()!r}", tuple(map(_shown, _awaited(task))))
        for task in asyncio.all_tasks()
    ]


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


async def _command_line(_: Query) -> str:
    return "\0".join(sys.orig_argv)


async def _stacks(query: Query) -> str:
    running = [*threads(), *tasks()]
    return listed(running) if query.get("debug") == "2" else grouped(running)


async def _threads(_: Query) -> str:
    return listed(threads())


async def _symbols(_: Query) -> str:
    return "num_symbols: 1\n"


async def _heap(query: Query) -> str:
    if query.get("gc", "0") not in ("", "0"):
        gc.collect()
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    objects = gc.get_objects()
    for start in range(0, min(len(objects), _MOST_OBJECTS), _OBJECTS_AT_ONCE):
        for one in objects[start : start + _OBJECTS_AT_ONCE]:
            name = f"{type(one).__module__}.{type(one).__qualname__}"
            counts[name] += 1
            sizes[name] += _size(one)
        await asyncio.sleep(0)
    lines = [f"{sizes[name]} {counts[name]} {name}" for name, _ in sizes.most_common(_SHOWN)]
    head = f"heap profile: {len(objects)} objects known to the garbage collector\nbytes count type"
    return "\n".join([head, *lines, ""])


async def _allocations(seconds: float) -> str:
    tracemalloc.start(_TRACED_FRAMES)
    try:
        await asyncio.sleep(seconds)
        found = await asyncio.to_thread(tracemalloc.take_snapshot)
    finally:
        tracemalloc.stop()
    shown = found.statistics("lineno")[:_SHOWN]
    lines = [f"{entry.size} {entry.count} {entry.traceback[0]}" for entry in shown]
    return "\n".join([f"alloc profile: {seconds:g} s", "bytes count place", *lines, ""])


class _Profile(NamedTuple):
    text: str
    """For the index."""
    at_once: Callable[[Query], Awaitable[str]] | None = None
    lasting: Callable[[float], Awaitable[str]] | None = None
    seconds: float = 0.0
    """How long one that takes a while does, unless the request says."""


_PROFILES = {
    "allocs": _Profile(
        "What has been allocated in the next seconds (parameter seconds), by place",
        lasting=_allocations,
        seconds=1.0,
    ),
    "cmdline": _Profile("The command line of this process", _command_line),
    "goroutine": _Profile(
        "Stacks of all threads and asyncio tasks; debug=2 lists each by itself", _stacks
    ),
    "heap": _Profile("Live objects by type; gc=1 collects garbage first", _heap),
    "profile": _Profile(
        "Sampled stacks in collapsed form, for the duration in seconds",
        lasting=lambda seconds: asyncio.to_thread(collapsed, seconds),
        seconds=30.0,
    ),
    "symbol": _Profile("There are no addresses to look up in a Python process", _symbols),
    "threadcreate": _Profile("The threads of this process", _threads),
    "trace": _Profile(
        "What ran when, as Chrome trace events, for the duration in seconds",
        lasting=lambda seconds: asyncio.to_thread(trace_events, seconds),
        seconds=1.0,
    ),
}


def _index() -> web.Response:
    rows = "".join(
        f"<tr><td><a href='{name}?debug=1'>{name}</a></td><td>{escape(profile.text)}</td></tr>\n"
        for name, profile in _PROFILES.items()
    )
    body = (
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n"
        f"Types of profiles available:\n<table>\n{rows}</table>\n"
        '<a href="goroutine?debug=2">full stack dump</a>\n</body>\n</html>'
    )
    return text_answer(body, content_type="text/html; charset=utf-8")


def profiling_routes() -> Sequence[Route]:
    """The index and all profiles, of which one that takes a while runs at a time."""
    alone = asyncio.Lock()

    async def page(request: web.Request) -> web.Response:
        name = request.path.removeprefix(PREFIX)
        profile = _PROFILES.get(name)
        if profile is None:
            return error_text("Unknown profile", 404) if name else _index()
        if profile.at_once is not None:
            return text_answer(await profile.at_once(request.query))
        assert profile.lasting is not None
        if alone.locked() or tracemalloc.is_tracing():
            message = "Could not enable CPU profiling: cpu profiling already in use"
            return error_text(message, 500)
        async with alone:
            seconds = duration(request.query, profile.seconds)
            return text_answer(await profile.lasting(seconds))

    async def moved(_: web.Request) -> web.Response:
        text = f'<a href="{PREFIX}">Found</a>.\n\n'
        answer = text_answer(text, 302, content_type="text/html; charset=utf-8", sniff=True)
        answer.headers["Location"] = PREFIX
        return answer

    return [
        Route(PREFIX.rstrip("/"), moved, listed=False),
        Route(PREFIX, page, prefix=True, listed=False),
    ]


def collapsed(seconds: float) -> str:
    """Stacks of all threads, sampled: `outer;inner count`, as flame graph tools read it."""
    counts: Counter[str] = Counter()
    for _, running in _samples(seconds, _SAMPLE_EVERY):
        counts.update(";".join(one.stack) for one in running)
    return "".join(f"{stack} {count}\n" for stack, count in counts.most_common())


def trace_events(seconds: float) -> str:
    """The innermost functions over time; equal neighbours are one event."""
    events: list[dict[str, object]] = []
    current: dict[str, tuple[str, float, float]] = {}

    def close(title: str) -> None:
        name, begun, ended = current.pop(title)
        times = {"ts": int(begun * 1e6), "dur": int((ended - begun) * 1e6)}
        events.append({"name": name, "ph": "X", "pid": 1, "tid": title, **times})

    for moment, running in _samples(seconds, _TRACE_EVERY):
        for title, stack in running:
            name = stack[-1] if stack else ""
            known = current.get(title)
            if known is not None and known[0] != name:
                close(title)
                known = None
            current[title] = (name, known[1] if known else moment, moment + _TRACE_EVERY)
    for title in list(current):
        close(title)
    del events[_MOST_EVENTS:]
    return json.dumps({"traceEvents": events})


def _samples(seconds: float, every: float) -> Iterator[tuple[float, list[Running]]]:
    """What all other threads do, again and again; for a thread that has nothing else to do."""
    me = threading.get_ident()
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        yield passed, threads(besides=me)
        time.sleep(every)


def duration(query: Query, default: float) -> float:
    """The duration asked for; what is no positive number means the usual one, as upstream."""
    try:
        seconds = float(query.get("seconds", ""))
    except ValueError:
        return default
    return min(seconds, LONGEST) if seconds > 0 else default


def _size(one: object) -> int:
    try:
        return sys.getsizeof(one)
    except Exception:  # some types of extensions have no size
        return 0
