"""How far a simulation has come, on standard error: virtual time, and how long that took."""

import sys
import time
from collections.abc import Callable
from typing import TextIO

from moorage.cli.output import say
from moorage.model.meta import Json
from moorage.printable import printable
from moorage.scenarios.simulation import Simulation

_EVERY_SECONDS = 5.0
_AT_A_TERMINAL_SECONDS = 0.5


class RunProgress:
    """Is told of each run that begins, and speaks now and then until it ends."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream or sys.stderr, clock
        self._rewrites = self._stream.isatty()
        self._every = _AT_A_TERMINAL_SECONDS if self._rewrites else _EVERY_SECONDS
        self._shown = False

    def watch(self, scheduler: str, seed: int, run: Simulation) -> None:
        """A run begins."""
        self.clear()
        name = f"{scheduler}, seed {seed}"
        if not self._rewrites:
            say(f"{name} ...")
        began = self._clock()
        due = began + self._every

        def changed(before: Json | None, after: Json | None) -> None:
            del before, after
            nonlocal due
            now = self._clock()
            if now >= due:
                due = now + self._every
                self._tell(f"{name}: {_long(run.elapsed)} of virtual time in {now - began:.0f} s")

        run.api.followers.append(changed)

    def clear(self) -> None:
        """Take away the line that is rewritten."""
        if self._shown:
            print("\r\033[K", end="", file=self._stream, flush=True)
            self._shown = False

    def _tell(self, text: str) -> None:
        if not self._rewrites:
            say(text)
            return
        print(f"\r\033[K{printable(text)}", end="", file=self._stream, flush=True)
        self._shown = True


def _long(seconds: float) -> str:
    """A duration of hours and days, which need not be exact."""
    hours, rest = divmod(int(seconds), 3600)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"
