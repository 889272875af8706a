"""How long computations let the rest of the process run.

Owns the checkpoint that plugins call and a live scheduler sets. Offline it does nothing.
"""

from collections.abc import Callable


def _nobody_waits() -> bool:
    return False


def _time_stands_still() -> float:
    return 0.0


class Pacing:
    """Filled in by a scheduler that has more to do than to decide."""

    def __init__(self, timer: Callable[[], float] = _time_stands_still) -> None:
        self.timer = timer
        """A stopwatch's reading in seconds, for computations that may take only so long."""
        self.checkpoint: Callable[[], bool] = _nobody_waits
        """To be called every few milliseconds of a computation that can take long: it lets the rest
        of the process run, but what the attempt looks at does not change. True: other pods have
        waited long enough; the attempt should end with an error and is tried again later."""
