"""Memory of a process that runs for long: when garbage is looked for, and giving back what is free.

Pods and their decisions are freed by counting references; cycles are rare. Python's usual
thresholds would have it look through what a decision has just made every few dozen pods, and
through everything that is known of the cluster again and again.

The C library keeps freed memory that lies between blocks in use, which is most of it after
thousands of connections or objects have come and gone. Only glibc has a call that gives it back;
elsewhere nothing is done.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 10, 10)
_TRIM_EVERY_SECONDS = 10.0
_LONGEST_START = 60.0
"""So many seconds a process may do without looking for garbage, as a start makes what stays."""


def collect_rarely() -> None:
    """From now on look for garbage rarely, and never among what is there by now: it stays."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """The same for a while."""
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if not enabled:
            gc.disable()


async def collect_after_start(seconds: float = _LONGEST_START) -> None:
    """Look for garbage at last, whatever a process still waits for: to lead, or for an answer."""
    await asyncio.sleep(seconds)
    if not gc.isenabled():
        collect_rarely()


async def give_back_freed_memory(seconds: float = _TRIM_EVERY_SECONDS) -> None:
    """Do so every now and then, until cancelled."""
    trim = malloc_trim()
    while trim is not None:
        await asyncio.sleep(seconds)
        trim(0)  # less than a millisecond, some where much was freed


def malloc_trim() -> Callable[[int], int] | None:
    """The call of that name, if the C library has it."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
