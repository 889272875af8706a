"""One process of the fuzzer: makes inputs for one target and tells its parent what became of them.

What it is working on stands in a file that both share, so that the parent knows it even if the
process ends, or hangs where no signal reaches it.
"""

import faulthandler
import gc
import mmap
import resource
import struct
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from fuzz.minimising import minimised
from fuzz.mutations import MOST_BYTES
from fuzz.target import Strict, Target
from fuzz.targets import target_named
from fuzz.watchdog import Hang, Watchdog, described, signature

_HEAD = struct.Struct("<dI")
SHARED_BYTES = _HEAD.size + 8 * MOST_BYTES
_MOST_MEMORY = 6 << 30
_REPORT_SECONDS = 1.0


@dataclass(frozen=True)
class Count:
    """So many inputs since the last report."""

    inputs: int


@dataclass(frozen=True)
class Found:
    """A fault; `repeats` if the input alone shows it again."""

    signature: str
    fault: str
    data: bytes
    repeats: bool


class Shared:
    """The input under way, and since when."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SHARED_BYTES)

    def begin(self, data: bytes) -> None:
        """An input is tried from now on."""
        self._memory[_HEAD.size : _HEAD.size + len(data)] = data
        self._memory[: _HEAD.size] = _HEAD.pack(time.monotonic(), len(data))

    def rest(self) -> None:
        """Nothing is tried."""
        self._memory[: _HEAD.size] = _HEAD.pack(0.0, 0)

    def current(self) -> tuple[float, bytes]:
        """When the input under way was begun (0: there is none), and the input."""
        started, size = _HEAD.unpack(self._memory[: _HEAD.size])
        return started, bytes(self._memory[_HEAD.size : _HEAD.size + size])


def work(name: str, seed: str, seconds: float, path: Path, pipe: Connection) -> None:
    """Try inputs until the time is over."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    Strict.install()
    random = Random(seed)
    target = target_named(name)
    target.prepare(random)
    gc.collect()
    gc.freeze()
    run = _Run(target, Shared(path), pipe)
    until = time.monotonic() + seconds
    count, reported = 0, time.monotonic()
    while (now := time.monotonic()) < until:
        if now - reported > _REPORT_SECONDS:
            pipe.send(Count(count))
            count, reported = 0, now
        data = target.make(random)
        if len(data) <= MOST_BYTES:
            run.one(data)
            count += 1
    run.shared.rest()
    pipe.send(Count(count))
    target.reset()


class _Run:
    def __init__(self, target: Target, shared: Shared, pipe: Connection) -> None:
        self.shared = shared
        self._target = target
        self._pipe = pipe
        self._watchdog = Watchdog()
        self._seen: set[str] = set()

    def one(self, data: bytes) -> None:
        error = self._try(data)
        if error is None:
            return
        name = signature(self._target.name, error)
        if name in self._seen:
            self._target.reset()
            return
        self._seen.add(name)
        again = self._fails(data, name)
        if not again and isinstance(error, Hang):
            return  # the machine was slow, not the product
        # Less deep an input would fail only under as many calls as there are here.
        if again and not isinstance(error, RecursionError):
            small = minimised(data, lambda less: self._fails(less, name))
        else:
            small = data
        self._pipe.send(Found(name, described(error), small, again))

    def _try(self, data: bytes) -> BaseException | None:
        self.shared.begin(data)
        return self._watchdog.run(self._target, data)

    def _fails(self, data: bytes, name: str) -> bool:
        self._target.reset()
        error = self._try(data)
        return error is not None and signature(self._target.name, error) == name
