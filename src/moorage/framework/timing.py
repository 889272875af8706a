"""How long the parts of an attempt take.

Owns the stopwatch that goes with an attempt from its first plugin to the end of its binding. What
it reads goes to whoever counts; without anybody it reads no clock.
"""

from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple

from moorage.framework.status import Code, Status

# The values of the label `status`, looked up once: reading an enum's value is slow.
SUCCESS = Code.SUCCESS.value
ERROR = Code.ERROR.value
UNSCHEDULABLE = Code.UNSCHEDULABLE.value
SKIPPED = Code.SKIP.value
WAIT = Code.WAIT.value


class PointDuration(NamedTuple):
    """What an extension point took, or one plugin there."""

    profile: str
    point: str
    plugin: str
    """Empty for the whole point."""
    status: str
    seconds: float


class AttemptTimes:
    """The stopwatch of one attempt; `durations` is where its readings go."""

    __slots__ = ("durations", "now", "profile", "sampled", "started")

    def __init__(
        self,
        profile: str = "",
        now: Callable[[], float] = float,
        durations: list[PointDuration] | None = None,
        *,
        sampled: bool = False,
    ) -> None:
        self.profile = profile
        self.now = now
        self.sampled = sampled
        """Is each plugin timed by itself?"""
        self.durations = durations
        self.started = now()

    def point(self, name: str) -> "PointTime":
        """The beginning of an extension point: use it in a `with` statement."""
        return PointTime(self, name)

    def seconds(self) -> float:
        return self.now() - self.started

    def resume(self, seconds: float) -> None:
        """Go on as if the attempt had taken so long: it had to wait for others."""
        self.started = self.now() - seconds

    def note(self, point: str, plugin: str, status: str, seconds: float) -> None:
        if self.durations is not None:
            self.durations.append(PointDuration(self.profile, point, plugin, status, seconds))


class PointTime:
    """One extension point of one attempt."""

    __slots__ = ("_lap", "_name", "_started", "_times", "status")

    def __init__(self, times: AttemptTimes, name: str) -> None:
        self._times = times
        self._name = name
        self.status = SUCCESS
        """How the point ends; an exception makes it an error."""

    def __enter__(self) -> "PointTime":
        self._started = self._lap = self._times.now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        times = self._times
        if times.durations is not None:
            status = self.status if error is None else ERROR
            times.note(self._name, "", status, times.now() - self._started)

    def ran(self, plugin: str, status: str = SUCCESS) -> None:
        """A plugin answered; its time began when the one before it answered."""
        times = self._times
        if times.sampled:
            now = times.now()
            times.note(self._name, plugin, status, now - self._lap)
            self._lap = now

    def answered(self, plugin: str, status: Status | None) -> None:
        """A plugin answered with a status; None agrees."""
        self.ran(plugin, SUCCESS if status is None else status.code.value)


UNTIMED = AttemptTimes()
"""For whoever does not measure."""
