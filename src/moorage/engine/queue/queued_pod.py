"""A pod together with what the queue remembers of it between attempts, and which pods wait where.

Owns the records, not the rules: whoever holds a pod (the queue, or the cycle after a pop) changes
its fields. Two of upstream's fields are left out because they follow from others: the events of
the gating plugin (`requeueing.WakeRules` knows them by the plugin's name) and the pod's signature
(pods that are alike share answers, see `framework.fast_path`).
"""

from dataclasses import dataclass, field

from moorage.model.pod import Pod

# Where a pod waits.
ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """What is known of a waiting pod; compared by identity, as it stands for one stay in the queue.

    Times are seconds since the epoch.
    """

    pod: Pod
    timestamp: float
    """When the pod last entered the queue; the second part of the default order."""
    attempts: int = 0
    backoff_expiration: float | None = None
    """When the back-off ends, once worked out; None asks for it to be worked out again."""
    unschedulable_count: int = 0
    """Attempts that ended with a rejection, over the pod's whole life."""
    consecutive_errors_count: int = 0
    """Attempts that ended with an error since the last one that did not."""
    flush_timestamp: float | None = None
    initial_attempt_timestamp: float | None = None
    """When the pod was first ready to be tried, so time spent behind a gate does not count."""
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    key: str = field(init=False)
    """`namespace/name`, under which the pod is found in every place; no update changes it."""

    def __post_init__(self) -> None:
        self.key = self.pod.key

    @property
    def gated(self) -> bool:
        """Did a PreEnqueue plugin refuse it last time?"""
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> set[str]:
        """The plugins that turned the pod away; only their hints can bring it back."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def failed_with_error(self) -> bool:
        """Nobody rejected it, so if it came back something broke, and only time can mend that."""
        return not self.unschedulable_plugins and not self.pending_plugins

    def clear_rejectors(self) -> None:
        """Forget who turned the pod away, before the latest attempt's findings are filled in."""
        # New sets, because the old ones may still be held by whoever reported the attempt.
        self.unschedulable_plugins = set()
        self.pending_plugins = set()
        self.gating_plugin = ""


@dataclass(slots=True, frozen=True)
class PendingPods:
    """The waiting pods by place, first ones first; `gated` are among the unschedulable ones."""

    active: tuple[Pod, ...]
    backoff: tuple[Pod, ...]
    unschedulable: tuple[Pod, ...]
    gated: tuple[Pod, ...]
    in_flight: tuple[Pod, ...]

    @property
    def pods(self) -> tuple[Pod, ...]:
        """All that wait; pods in flight do not."""
        return self.active + self.backoff + self.unschedulable

    @property
    def summary(self) -> str:
        """How many wait where, in upstream's words."""
        return (
            f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; "
            f"unschedulablePods:{len(self.unschedulable)}"
        )
