"""Child processes with a log file each, ended by their id."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_TAIL_BYTES = 4_000


class Process:
    """One child process; everything it prints goes to its log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the process is still there."""
        return self._child.poll() is None

    def check(self) -> None:
        """Complain with the end of the log if the process has ended by itself."""
        if not self.running:
            code = self._child.returncode
            raise AssertionError(f"{self.name} ended with code {code}:\n{self.tail()}")

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._child.send_signal(number)

    def ended(self, wait: float = 15.0) -> int:
        """Wait until the process has ended by itself; its exit code."""
        return self._child.wait(wait)

    def stop(self, wait: float = 15.0) -> int:
        """Ask the process to end, insist after a while; its exit code."""
        if self.running:
            self._child.send_signal(signal.SIGTERM)
        try:
            return self._child.wait(wait)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """End the process at once, as a power cut would."""
        self._child.kill()
        return self._child.wait()

    def tail(self) -> str:
        """The end of the log."""
        text = self.log.read_bytes()[-_TAIL_BYTES:]
        return text.decode(errors="replace")


def wait_until_ready(process: Process, ready: Callable[[], bool], wait: float) -> None:
    """Poll until the process serves; complain when it ends or takes too long."""
    limit = time.monotonic() + wait
    while not ready():
        process.check()
        if time.monotonic() > limit:
            raise AssertionError(f"{process.name} is not ready after {wait:g} s:\n{process.tail()}")
        time.sleep(0.1)
