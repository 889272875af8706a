"""No call may take longer than two seconds: what ends one that does, and how faults are told apart.

Counts the processor time of this process, so that a busy machine is not taken for a slow product.
"""

import signal
import traceback
from pathlib import Path
from types import FrameType

from fuzz.target import Target

MOST_SECONDS = 2.0


class Hang(KeyboardInterrupt):
    """A call took too long. Event loops let a KeyboardInterrupt through, and nothing else."""


class Watchdog:
    """Interrupts the main thread of this process."""

    def __init__(self) -> None:
        self._barked = False
        signal.signal(signal.SIGPROF, self._bark)

    def _bark(self, number: int, frame: FrameType | None) -> None:
        del number
        self._barked = True
        raise Hang(f"it took longer than {MOST_SECONDS:g} s").with_traceback(None)

    def run(self, target: Target, data: bytes) -> BaseException | None:
        """Check an input; what was raised, or None."""
        self._barked = False
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS, MOST_SECONDS)
        try:
            target.check(data)
        except (SystemExit, Hang) as error:
            return error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return Hang("it took longer than it may") if self._barked else None


def signature(target: str, error: BaseException) -> str:
    """What makes two faults the same: the kind of exception and the place in the product."""
    places = [
        f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "moorage" in frame.filename and "/tests/" not in frame.filename
    ]
    # Where a hang is interrupted is chance; who called is not.
    place = (places[:6] if isinstance(error, Hang) else places)[-1:] or [str(error)[:60]]
    return f"{target}: {type(error).__name__} in {place[0]}"


def described(error: BaseException) -> str:
    """The exception, and the last places of its traceback."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
    return f"{type(error).__name__}: {str(error)[:300]} ({places})"
