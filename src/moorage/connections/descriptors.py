"""The limit of open files of this process (RLIMIT_NOFILE).

Owns raising it at the start, as every Go program does, restoring it for the programs that this one
starts, and the descriptors that accepted connections leave to everything else.
"""

import contextlib
import resource
import sys

_RESERVE = 256
_inherited: tuple[int, int] | None = None  # a property of the process, as the limit itself is


def raise_limit() -> None:
    """Raise the soft limit to the hard limit."""
    global _inherited
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    # A hard limit above what the system has in all is refused; then the soft one stays.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        _inherited = (soft, hard)


def restore_limit(pid: int) -> None:
    """Give a program that was just started the limit that this process was started with.

    Programs that use select(), or that walk through all possible descriptors, count on a low one.
    Set from outside: Python code between fork and exec could deadlock where there are threads.
    """
    if _inherited is None or sys.platform != "linux":
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or not ours any more
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _inherited)


def descriptor_limit() -> int:
    """The descriptor of an accepted connection must be below this number.

    The system gives out the lowest free number first, so all numbers from the limit on stay free
    for the API server, the lease and files.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return soft - min(_RESERVE, soft // 4)
