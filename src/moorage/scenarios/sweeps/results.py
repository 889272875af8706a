"""The runs of a sweep as lines of JSON: appended as they end, and put in order at last.

Owns the file: that a line that was cut off is dropped, and that only one process writes.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from moorage.controllers.objects import Json
from moorage.errors import InputError


class RunLines:
    """The runs that have ended, by the hash of their inputs."""

    def __init__(self, path: Path) -> None:
        """Read what is there; `InputError` if it is no such file, or another process writes it."""
        self.path = path
        try:
            self._file: BinaryIO = path.open("a+b")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise InputError(f"{path}: another sweep writes its results here") from None
        except OSError:
            pass  # a file system without locks
        self.runs: dict[str, Json] = {}
        self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _read(self) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        for number, line in enumerate(text[:whole].splitlines(), 1):
            try:
                run = json.loads(line)
                self.runs[run["id"]] = run
            except (ValueError, TypeError, KeyError):
                self._file.close()
                raise InputError(f"{self.path}:{number}: expected a run of a sweep") from None
        if whole < len(text):
            self._file.truncate(whole)

    def append(self, run: Json) -> None:
        """Keep a run, whatever becomes of this process."""
        self.runs[run["id"]] = run
        try:
            self._file.write(_line(run))
            self._file.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def put_in_order(self, order: Sequence[str]) -> None:
        """Replace the file by one with these runs first, and then those of other sweeps."""
        first = {name: self.runs[name] for name in order if name in self.runs}
        lines: Mapping[str, Json] = {**first, **self.runs}
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            draft.write_bytes(b"".join(map(_line, lines.values())))
            draft.replace(self.path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> InputError:
        return InputError(f"{self.path} cannot be written: {error.strerror or error}")


def _line(run: Json) -> bytes:
    return json.dumps(run, separators=(",", ":")).encode() + b"\n"
