"""A running oracle: the program of tests/oracle, which decides cases with upstream's plugins.

Owns the process and the exchange of lines with it. A case that it does not answer in time, or that
ends it, has failed; the next one is asked in a new process. Must not judge an answer.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from moorage.errors import InputError
from moorage.model.meta import Json

_SECONDS = 60.0
_DECODER = msgspec.json.Decoder(dict)


class OracleAnswer(msgspec.Struct, frozen=True):
    """One of: what is decided, why the API would not take an object, why there is no answer."""

    expect: Json | None = None
    stored: dict[int, Json] = {}
    """The objects that were to be checked, with the API server's defaults."""
    invalid: str = ""
    failed: str = ""


class Oracle:
    """Use it as a context: it starts the program and ends it."""

    def __init__(self, program: Path, seconds: float = _SECONDS) -> None:
        self._program = program
        self._seconds = seconds
        self.kubernetes = ""
        """The release whose plugins decide."""

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, case: Json, check: Sequence[int] = ()) -> OracleAnswer:
        """What upstream decides; the API must take the objects with these numbers, too.

        The number after the last object's means the pod.
        """
        asked = {key: case.get(key) for key in ("config", "objects", "pod")}
        line = msgspec.json.encode({**asked, "check": check}) + b"\n"
        try:
            self._write(line)
            return msgspec.convert(self._read(), OracleAnswer, strict=False)
        except (OSError, EOFError, TimeoutError) as error:
            self._end()
            self._start()
            return OracleAnswer(failed=f"the oracle gave no answer: {error}")

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                [self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            raise InputError(f"{self._program}: cannot be started: {error.strerror}") from error
        self._received = b""
        try:
            self.kubernetes = self._read()["kubernetes"]
        except (EOFError, TimeoutError, msgspec.DecodeError, KeyError) as error:
            self._end()
            raise InputError(
                f"{self._program}: not an oracle: its first line is no JSON object with the release"
            ) from error

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        rest = memoryview(line)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]

    def _read(self) -> Json:
        assert self._process.stdout is not None
        until = time.monotonic() + self._seconds
        pieces = [self._received]
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in pieces[-1]:
                if not selector.select(until - time.monotonic()):
                    raise TimeoutError(f"{self._seconds:.0f} seconds have passed")
                pieces.append(os.read(self._process.stdout.fileno(), 1 << 20))
                if not pieces[-1]:
                    raise EOFError("it ended")
        line, _, self._received = b"".join(pieces).partition(b"\n")
        answer: Json = _DECODER.decode(line)
        return answer
