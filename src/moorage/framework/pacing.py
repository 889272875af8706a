"""How long computations let the rest of the process run.

Owns the checkpoint that plugins call and a live scheduler sets, and the note of which plugin is at
work. Offline neither does anything.
"""

from collections.abc import Callable


class Pacing:
    """Filled in by a scheduler that has more to do than to decide."""

    def __init__(self, timer: Callable[[], float] = float) -> None:
        self.timer = timer
        """A stopwatch's reading in seconds, for computations that may take only so long."""
        self.checkpoint: Callable[[], bool] = bool
        """To be called every few milliseconds of a computation that can take long: it lets the rest
        of the process run, but what the attempt looks at does not change. True: other pods have
        waited long enough; the attempt should end with an error and is tried again later."""


DEFAULT_CALL_SECONDS = 30.0


class PluginCalls:
    """Which plugin is at work, of those that are not in-tree (`framework.calls`)."""

    def __init__(self) -> None:
        self.current: list[str] | None = None
        """The profile; another list for every call."""
        self.seconds: dict[str, float] = {}
        """How long a call may take, by profile; that of "" is for all others."""

    def budget(self, profile: str) -> float:
        """How long a call may take, in seconds."""
        return self.seconds.get(profile, self.seconds.get("", DEFAULT_CALL_SECONDS))
