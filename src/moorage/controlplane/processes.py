"""Child processes: started with a log file, measured, and ended by their id.

CPU time and memory are read from /proc while a process runs (Linux); elsewhere the CPU time is what
the system tells when it has ended.
"""

import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from moorage.errors import InputError, ProcessError

_TAIL_LINES = 12
_TAIL_BYTES = 8_000
_POLL_SECONDS = 0.02
_READY_POLL_SECONDS = 0.1
_HOST = "127.0.0.1"


class Usage(msgspec.Struct, frozen=True):
    """What a process has used since it was started."""

    cpu_seconds: float
    peak_rss_mib: float


class ChildProcess:
    """One child process; everything it prints goes to its log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.started = time.monotonic()
        self._code: int | None = None
        self._usage = Usage(0.0, 0.0)
        try:
            with log.open("ab") as output:
                self._child = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=None if environment is None else dict(environment),
                    process_group=0,  # Ctrl-C is for who started it, and ends it in good order
                )
        except OSError as error:
            raise InputError(f"{command[0]} cannot be started: {error.strerror}") from error

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        if self._code is None:
            self._reap(os.WNOHANG)
        return self._code is None

    def check(self) -> None:
        """Complain with the end of the log if the process has ended by itself."""
        if not self.running:
            raise ProcessError(f"{self.name} ended with code {self._code}", self.tail())

    def usage(self) -> Usage:
        """What the process has used so far; of an ended one, what it used in all."""
        if self.running:
            self._usage = _from_proc(self.pid) or self._usage
        return self._usage

    def send(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def ended(self, seconds: float = 15.0) -> int:
        """Wait until the process has ended by itself; its exit code."""
        deadline = time.monotonic() + seconds
        while self.running:
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} has not ended in {seconds:g} s", self.tail())
            time.sleep(_POLL_SECONDS)
        assert self._code is not None
        return self._code

    def stop(self, seconds: float = 15.0) -> int:
        """Ask the process to end, and insist after a while; its exit code."""
        self.usage()
        self.send(signal.SIGTERM)
        try:
            return self.ended(seconds)
        except ProcessError:
            return self.kill()

    def kill(self) -> int:
        """End the process at once, as a power cut would; its exit code."""
        self.send(signal.SIGKILL)
        return self.ended()

    def tail(self) -> str:
        """The last lines of the log."""
        text = self.log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")
        lines = text.splitlines()[-_TAIL_LINES:]
        return "\n".join(lines) or "its log is empty"

    def _reap(self, options: int) -> None:
        pid, status, used = os.wait4(self.pid, options)
        if not pid:
            return
        self._code = self._child.returncode = os.waitstatus_to_exitcode(status)
        if not self._usage.cpu_seconds:
            self._usage = Usage(used.ru_utime + used.ru_stime, peak_mib(used))


def wait_until_ready(process: ChildProcess, ready: Callable[[], bool], seconds: float) -> None:
    """Poll until a process serves; complain when it ends or takes too long."""
    deadline = time.monotonic() + seconds
    while not ready():
        process.check()
        if time.monotonic() > deadline:
            raise ProcessError(f"{process.name} is not ready after {seconds:g} s", process.tail())
        time.sleep(_READY_POLL_SECONDS)


def free_port() -> int:
    """A port of loopback that nobody listens on now, and that no client is given as its own."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind((_HOST, port))
            return port


def _from_proc(pid: int) -> Usage | None:
    folder = Path("/proc", str(pid))
    try:
        # The name in brackets may hold spaces; what follows it does not.
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        status = (folder / "status").read_text()
    except OSError:
        return None
    ticks = int(fields[11]) + int(fields[12])
    peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), round(int(peak.split()[1]) / 1024, 1))


def peak_mib(used: resource.struct_rusage) -> float:
    """The most memory that was in use at a time."""
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return round(used.ru_maxrss * unit / 2**20, 1)
