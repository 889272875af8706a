"""At most one log line a second about events that clients can cause at any rate."""

import logging
import time

_SECONDS = 1.0


class LogThrottle:
    """Logs the first of many events, and with the next line how many were left out."""

    def __init__(self, log: logging.Logger, level: int) -> None:
        self._log = log
        self._level = level
        self._next = 0.0
        self._left_out = 0

    def __call__(self, text: str, *args: object) -> None:
        """Log, unless it was done less than a second ago."""
        now = time.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + _SECONDS
        if self._left_out:
            text += " (and %d times since the last such line)"
            args = (*args, self._left_out)
            self._left_out = 0
        self._log.log(self._level, text, *args)
