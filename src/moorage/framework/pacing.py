"""How long computations let others go on.

Owns the one place where a plugin and whoever runs it meet for that. Offline nobody else waits.
"""

from collections.abc import Callable


def _nobody_waits() -> bool:
    return False


class Pacing:
    """Filled in by a scheduler that does other things beside its decisions."""

    def __init__(self) -> None:
        self.checkpoint: Callable[[], bool] = _nobody_waits
        """To be called every few milliseconds of a computation that can take long; others may go
        on meanwhile, but what the attempt looks at stays as it is. True: others have waited long
        enough, and the attempt should end with an error, to be tried again after its back-off."""
