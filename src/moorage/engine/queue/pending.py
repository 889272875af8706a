"""What waits where, for people who look into a running scheduler.

Owns the form of the answer; taking it changes nothing.
"""

from dataclasses import dataclass

from moorage.model.pod import Pod


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
