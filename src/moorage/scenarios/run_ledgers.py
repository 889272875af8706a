"""Ledgers of runs, for `moorage explain --ledger`: each run has a folder of its own."""

import re
from pathlib import Path
from types import TracebackType

from moorage.errors import InputError
from moorage.ledger import Ledger
from moorage.scenarios.simulation import Simulation

_LIMIT_BYTES = 4 * 1024 * 1024
_FILE_BYTES = 64 * 1024 * 1024
_KEPT_FILES = 1_000
"""Nothing is thrown away: a simulation ends."""


class RunLedgers:
    """Writes what each run decides below a folder, as NAME-SEED."""

    def __init__(self, directory: Path | None) -> None:
        """Without a folder nothing is written."""
        if (
            directory is not None
            and directory.exists()
            and (not directory.is_dir() or any(directory.iterdir()))
        ):
            raise InputError(f"{directory}: expected a folder that is empty or not there yet")
        self._directory = directory
        self._current: Ledger | None = None

    def __enter__(self) -> "RunLedgers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def watch(self, scheduler: str, seed: int, run: Simulation) -> None:
        """Record a run that is about to begin; the one before it has ended."""
        self._close()
        if self._directory is None:
            return
        name = re.sub(r"[^\w.-]", "_", scheduler)
        self._current = Ledger(
            _LIMIT_BYTES,
            self._directory / f"{name}-{seed}",
            file_bytes=_FILE_BYTES,
            kept_files=_KEPT_FILES,
            stopwatch=run.now,
        )
        run.engine.record(self._current.recorder)

    def _close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None
