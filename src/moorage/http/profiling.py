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
PREFIX = "/debug/pprof/"
LONGEST = 300.0
_PROFILE_SECONDS = 30.0
_TRACE_SECONDS = 1.0
_SAMPLE_EVERY = 0.01
_TRACE_EVERY = 0.002
_MOST_EVENTS = 200_000
_MOST_OBJECTS = 5_000_000
_OBJECTS_AT_ONCE = 20_000
_SHOWN = 100
_TRACED_FRAMES = 8

_DESCRIPTIONS = {
    "allocs": "What has been allocated in the next seconds (parameter seconds), by place",
    "cmdline": "The command line of this process",
    "goroutine": "Stacks of all threads and asyncio tasks; debug=2 lists each by itself",
    "heap": "Live objects by type; gc=1 collects garbage first",
    "profile": "Sampled stacks in collapsed form, for the duration in seconds",
    "symbol": "There are no addresses to look up in a Python process",
    "threadcreate": "The threads of this process",
    "trace": "What ran when, as Chrome trace events, for the duration in seconds",
}


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


class Profiles:
    """The handlers, which share that only one long profile runs at a time."""

    def __init__(self) -> None:
        self._busy = False
        self._pages: dict[str, Callable[[web.Request], Awaitable[web.Response]]] = {
            "": self._index,
            "allocs": self._allocs,
            "cmdline": self._cmdline,
            "goroutine": self._goroutine,
            "heap": self._heap,
            "profile": self._profile,
            "symbol": self._symbol,
            "threadcreate": self._threadcreate,
            "trace": self._trace,
        }

    async def handle(self, request: web.Request) -> web.Response:
        """Any path below the prefix."""
        page = self._pages.get(request.path.removeprefix(PREFIX))
        return error_text("Unknown profile", 404) if page is None else await page(request)

    async def _index(self, _: web.Request) -> web.Response:
        rows = "".join(
            f"<tr><td><a href='{name}?debug=1'>{name}</a></td><td>{escape(text)}</td></tr>\n"
            for name, text in _DESCRIPTIONS.items()
        )
        body = (
            "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/\n<br>\n"
            f"Types of profiles available:\n<table>\n{rows}</table>\n"
            '<a href="goroutine?debug=2">full stack dump</a>\n</body>\n</html>'
        )
        return text_answer(body, content_type="text/html; charset=utf-8")

    async def _cmdline(self, _: web.Request) -> web.Response:
        return text_answer("\0".join(sys.orig_argv))

    async def _symbol(self, _: web.Request) -> web.Response:
        return text_answer("num_symbols: 1\n")

    async def _threadcreate(self, _: web.Request) -> web.Response:
        return text_answer(listed(threads()))

    async def _goroutine(self, request: web.Request) -> web.Response:
        running = [*threads(), *tasks()]
        form = listed if request.query.get("debug") == "2" else grouped
        return text_answer(form(running))

    async def _heap(self, request: web.Request) -> web.Response:
        if request.query.get("gc", "0") not in ("", "0"):
            gc.collect()
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        objects = gc.get_objects()
        for start in range(0, min(len(objects), _MOST_OBJECTS), _OBJECTS_AT_ONCE):
            for one in objects[start : start + _OBJECTS_AT_ONCE]:
                kind = type(one)
                name = f"{kind.__module__}.{kind.__qualname__}"
                counts[name] += 1
                sizes[name] += _size(one)
            await asyncio.sleep(0)
        lines = [f"{sizes[name]} {counts[name]} {name}" for name, _ in sizes.most_common(_SHOWN)]
        head = (
            f"heap profile: {len(objects)} objects known to the garbage collector\nbytes count type"
        )
        return text_answer("\n".join([head, *lines, ""]))

    async def _allocs(self, request: web.Request) -> web.Response:
        seconds = duration(request.query, _TRACE_SECONDS)

        async def measured() -> str:
            tracemalloc.start(_TRACED_FRAMES)
            try:
                await asyncio.sleep(seconds)
                found = await asyncio.to_thread(tracemalloc.take_snapshot)
            finally:
                tracemalloc.stop()
            shown = found.statistics("lineno")[:_SHOWN]
            lines = [f"{entry.size} {entry.count} {entry.traceback[0]}" for entry in shown]
            return "\n".join([f"alloc profile: {seconds:g} s", "bytes count place", *lines, ""])

        return await self._alone(measured)

    async def _profile(self, request: web.Request) -> web.Response:
        seconds = duration(request.query, _PROFILE_SECONDS)
        return await self._alone(lambda: asyncio.to_thread(collapsed, seconds))

    async def _trace(self, request: web.Request) -> web.Response:
        seconds = duration(request.query, _TRACE_SECONDS)
        return await self._alone(lambda: asyncio.to_thread(trace_events, seconds))

    async def _alone(self, measure: Callable[[], Awaitable[str]]) -> web.Response:
        if self._busy or tracemalloc.is_tracing():
            message = "Could not enable CPU profiling: cpu profiling already in use"
            return error_text(message, 500)
        self._busy = True
        try:
            return text_answer(await measure())
        finally:
            self._busy = False


def profiling_routes() -> Sequence[Route]:
    """The index and all profiles."""

    async def moved(_: web.Request) -> web.Response:
        answer = text_answer(
            f'<a href="{PREFIX}">Found</a>.\n\n',
            302,
            content_type="text/html; charset=utf-8",
            sniff=True,
        )
        answer.headers["Location"] = PREFIX
        return answer

    return [
        Route(PREFIX.rstrip("/"), moved, listed=False),
        Route(PREFIX, Profiles().handle, prefix=True, listed=False),
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


def duration(query: Mapping[str, str], default: float) -> float:
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
