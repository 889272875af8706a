"""How far a benchmark is: a bar on a terminal, one line per phase anywhere else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_BAR = 30
_REDRAW_SECONDS = 0.1


class Phase:
    """One phase of a benchmark that counts up to a total (0: not known)."""

    def __init__(self, progress: "Progress", name: str, total: int) -> None:
        self.name = name
        self.total = total
        self.done = 0
        self.started = time.monotonic()
        self._progress = progress

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self.done += count
        self._progress.redraw(self)


class Progress:
    """Tells how far things are."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bars = self._stream.isatty()
        self._drawn = 0.0

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Iterator[Phase]:
        """A phase that lasts as long as the context."""
        phase = Phase(self, name, total)
        self._drawn = 0.0
        self.redraw(phase)
        yield phase
        took = time.monotonic() - phase.started
        amount = f"{phase.done:,} " if phase.done else ""
        self.say(f"{name}: {amount}in {took:.1f} s")

    def say(self, text: str) -> None:
        """Print a line of its own."""
        start = "\r\x1b[K" if self._bars else ""
        self._stream.write(f"{start}{text}\n")
        self._stream.flush()

    def redraw(self, phase: Phase) -> None:
        """Draw the bar anew, not too often."""
        now = time.monotonic()
        if not self._bars or now - self._drawn < _REDRAW_SECONDS:
            return
        self._drawn = now
        share = min(phase.done / phase.total, 1.0) if phase.total else 0.0
        bar = ("#" * round(share * _BAR)).ljust(_BAR, ".")
        of = f"/{phase.total:,}" if phase.total else ""
        self._stream.write(f"\r\x1b[K{phase.name} [{bar}] {phase.done:,}{of}")
        self._stream.flush()


class Quiet(Progress):
    """Says nothing: for callers that print something else."""

    def say(self, text: str) -> None:
        """Nothing."""

    def redraw(self, phase: Phase) -> None:
        """Nothing."""
