"""Gives memory that was freed back to the system.

The C library keeps freed memory that lies between blocks in use, which is most of it after
thousands of connections or objects have come and gone. Only glibc has a call for this; elsewhere
nothing is done.
"""

import asyncio
import ctypes
from collections.abc import Callable

_SECONDS = 30.0


async def give_back_freed_memory(seconds: float = _SECONDS) -> None:
    """Do so every now and then, until cancelled."""
    trim = malloc_trim()
    while trim is not None:
        await asyncio.sleep(seconds)
        trim(0)  # some milliseconds


def malloc_trim() -> Callable[[int], int] | None:
    """The call of that name, if the C library has it."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
