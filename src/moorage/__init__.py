"""Moorage: kube-scheduler, written in Python.

`KubeScheduler` and `scheduler_command` are the scheduler as a library (docs/embedding.md). They are
loaded when they are first used: commands start without them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moorage.app.library import KubeScheduler
    from moorage.cli.scheduler import scheduler_command

__all__ = ["KubeScheduler", "scheduler_command"]


def __getattr__(name: str) -> Any:
    if name == "KubeScheduler":
        from moorage.app.library import KubeScheduler

        return KubeScheduler
    if name == "scheduler_command":
        from moorage.cli.scheduler import scheduler_command

        return scheduler_command
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
