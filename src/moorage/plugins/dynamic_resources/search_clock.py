"""The clock of a search for devices: when it has to end, and when other work gets a turn.

Owns the checkpoint that the search and the expressions of selectors call. It reads the time from
the timer it is given, and knows nothing of threads or of an event loop (`framework.pacing`).
"""

from collections.abc import Callable

from moorage.framework.pacing import Pacing


class TimedOutError(Exception):
    """The search on a node took longer than `filterTimeout`."""


class GaveWayError(Exception):
    """The search was ended because other pods wait."""


class SearchClock:
    """One per scheduler; `start` and `stop` enclose the search on a node."""

    def __init__(self, pacing: Pacing) -> None:
        self._pacing = pacing
        self._searching = False
        self._timer: Callable[[], float] | None = None
        self._deadline = 0.0

    def start(self, timer: Callable[[], float], limit: float) -> None:
        """The search on a node begins; a limit of 0 is none."""
        self._searching = True
        self._timer = timer if limit else None
        self._deadline = timer() + limit if limit else 0.0

    def stop(self) -> None:
        """It is over."""
        self._searching = False
        self._timer = None

    def checkpoint(self) -> None:
        """Raises `TimedOutError` or `GaveWayError` if the search must end.

        Outside of a search, expressions of selectors are evaluated to their end.
        """
        if self._pacing.checkpoint() and self._searching:
            raise GaveWayError
        if self._timer is not None and self._timer() > self._deadline:
            raise TimedOutError
