"""What a metrics recorder can learn from the queue.

Owns the list of things worth counting, in upstream's words; the counting is somebody else's. The
base class ignores everything, so that the queue never asks whether anybody watches.
"""

from moorage.framework.status import Code

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"

POD_POPPED = "PodPopped"
"""Stands for the pods themselves among the in-flight events."""


class QueueObserver:
    """Is told what happens in the queue; must not call back into it."""

    def time(self) -> float:
        """A stopwatch's reading in seconds; whoever does not measure reads no clock."""
        return 0.0

    def incoming_pods(self, queue: str, event: str) -> None:
        """A pod entered ACTIVE, BACKOFF or UNSCHEDULABLE because of an event (by its label)."""

    def pending_pods(self, queue: str, change: int) -> None:
        """There are more or fewer pods in ACTIVE, BACKOFF, UNSCHEDULABLE or GATED."""

    def unschedulable_reason(self, plugin: str, profile: str, change: int) -> None:
        """There are more or fewer waiting pods that a plugin turned away."""

    def in_flight_events(self, event: str, change: int) -> None:
        """More or fewer events (by label, POD_POPPED for pods) are kept for pods being tried."""

    def hint_given(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A queueing hint answered `Queue`, `QueueSkip` or `Error` after so long."""

    def pre_enqueue_answered(self, plugin: str, profile: str, code: Code, seconds: float) -> None:
        """A PreEnqueue plugin answered with a status code after so long."""

    def pre_enqueue_finished(self, profile: str, seconds: float) -> None:
        """All PreEnqueue plugins that had to be asked about a pod are through."""
