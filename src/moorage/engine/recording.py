"""What a ledger is told: every change the engine applied, and every attempt that ended.

Owns the list of things worth recording; the recording is somebody else's. As with `engine.observer`
the base class ignores everything, so that an engine without a ledger does no work.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moorage.engine.decisions import Bind, Unschedulable
from moorage.engine.observer import ERROR, SCHEDULED, UNSCHEDULABLE
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import Extender
from moorage.framework.profile import Profile
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

if TYPE_CHECKING:
    from moorage.engine.cycle import Cycle


@dataclass(slots=True)
class EndedAttempt:
    """How an attempt ended; filled in on the way there."""

    pod: Pod
    profile: Profile
    attempts: int
    placed: Bind | None = None
    """The node that was found, whatever became of it."""
    failure: Unschedulable | None = None
    """Why the pod does not go there, or anywhere; None: it does."""
    started: float = 0.0
    """By the recorder's clock; 0.0 if nobody looked."""
    search_start: int = 0
    """Where the search for nodes began."""
    attempt: AttemptResult | None = None
    """What plugins said; valid until the next attempt."""
    binding: bool = False
    """Was the pod on its way to the node? Its attempt was recorded as scheduled before."""

    @property
    def result(self) -> str:
        """`SCHEDULED`, `UNSCHEDULABLE` or `ERROR` of `engine.observer`."""
        if self.failure is None:
            return SCHEDULED
        return UNSCHEDULABLE if self.failure.code.rejected else ERROR

    @property
    def node_name(self) -> str:
        """The chosen node, also if it was refused in the end."""
        chosen = self.failure is None or self.failure.refusal is not None
        return self.placed.node_name if chosen and self.placed is not None else ""


class DecisionRecorder:
    """Is told of changes and attempts; must not call back. This one ignores everything."""

    def __init__(self) -> None:
        self.clock: Callable[[], float] = float
        """What time is it? To be read when an attempt begins."""

    def follow(self, cycle: "Cycle", profiles: Mapping[str, Profile]) -> None:
        """From now on everything about this cycle and its cluster is told."""

    def configured(self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]) -> None:
        """Other profiles decide from now on."""

    def changed(self, obj: ApiObject, old: ApiObject | None = None) -> None:
        """An object appeared, or took the place of an `old` one."""

    def deleted(self, obj: ApiObject) -> None:
        """An object is gone."""

    def forgotten(self, pod: Pod) -> None:
        """A pod that was sent to a node does not count there any more."""

    def attempt_ended(self, ended: EndedAttempt) -> None:
        """An attempt ended; to be called before the pod is queued again."""

    def rest(self) -> float | None:
        """There is nothing to decide now; in so many seconds it would like to hear that again."""
        return None


class PassingRecorder(DecisionRecorder):
    """Passes on what it is told to a recorder that was there before; its heirs listen as well."""

    def __init__(self, before: DecisionRecorder) -> None:
        super().__init__()
        self._before = before
        self.clock = before.clock

    def configured(self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]) -> None:
        """Pass it on."""
        self._before.configured(profiles, extenders)

    def changed(self, obj: ApiObject, old: ApiObject | None = None) -> None:
        """Pass it on."""
        self._before.changed(obj, old)

    def deleted(self, obj: ApiObject) -> None:
        """Pass it on."""
        self._before.deleted(obj)

    def forgotten(self, pod: Pod) -> None:
        """Pass it on."""
        self._before.forgotten(pod)

    def attempt_ended(self, ended: EndedAttempt) -> None:
        """Pass it on."""
        self._before.attempt_ended(ended)

    def rest(self) -> float | None:
        """Pass it on."""
        return self._before.rest()


NO_RECORD = DecisionRecorder()
