"""What all layouts come down to: objects that come, change and go, each at its time."""

import math
from typing import Any, Literal, NamedTuple

Json = dict[str, Any]


class TraceChange(NamedTuple):
    """An object comes or goes, so many seconds after the trace began."""

    at: float
    what: Literal["create", "patch", "delete"]
    object: Json
    """Of one that is deleted: kind and name. Of one that is patched: those, and what changes."""
    only_told: bool = False
    """Only the scheduler hears of it: no controller acts on it. It is whole, even if deleted."""


def came(at: float, manifest: Json) -> TraceChange:
    """An object comes."""
    return TraceChange(at, "create", manifest)


def went(at: float, manifest: Json) -> TraceChange:
    """An object goes."""
    return TraceChange(at, "delete", manifest)


def patched(at: float, changes: Json) -> TraceChange:
    """An object changes."""
    return TraceChange(at, "patch", changes)


def told(at: float, manifest: Json, *, gone: bool) -> TraceChange:
    """The scheduler hears of an object, and nobody else."""
    return TraceChange(at, "delete" if gone else "create", manifest, only_told=True)


class Machine(NamedTuple):
    """What the largest machine of a trace has that tells sizes in shares of it."""

    milli_cpu: int
    memory: int

    def share(self, cpu: float, memory: float) -> dict[str, str]:
        """So much of it, rounded up."""
        return {
            "cpu": f"{math.ceil(cpu * self.milli_cpu)}m",
            "memory": str(math.ceil(memory * self.memory)),
        }
