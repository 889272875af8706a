"""What a ledger is told: every change the engine applied, and every attempt that ended.

Owns the list of things worth recording; the recording is somebody else's. As with `engine.observer`
the base class ignores everything, so that an engine without a ledger does no work.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from moorage.engine.decisions import Bind, Refusal, Unschedulable
from moorage.engine.observer import ERROR, SCHEDULED, UNSCHEDULABLE
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import Extender
from moorage.framework.profile import Profile
from moorage.framework.status import Status
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod

if TYPE_CHECKING:
    from moorage.engine.cycle import Cycle


class EndedAttempt(NamedTuple):
    """How an attempt ended, in plain values."""

    pod: Pod
    profile: Profile
    attempts: int
    started: float
    """By the recorder's clock; 0.0 if nobody looked."""
    result: str = SCHEDULED
    """`SCHEDULED`, `UNSCHEDULABLE` or `ERROR` of `engine.observer`."""
    node_name: str = ""
    """The chosen node, also if it was refused in the end."""
    feasible: int = 0
    total: int | None = None
    message: str = ""
    nominated_node: str = ""
    victims: tuple[Pod, ...] = ()
    refusal: Refusal | None = None
    """Who refused the chosen node, and at which extension point."""
    search_start: int = 0
    """Where the search for nodes began."""
    attempt: AttemptResult | None = None
    """What plugins said; valid until the next attempt."""
    binding: bool = False
    """Was the pod on its way to the node? Its attempt was recorded as scheduled before."""


class DecisionRecorder:
    """Is told of changes and attempts; must not call back. This one ignores everything."""

    on = False
    """Is it worth working out what to tell?"""

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


NO_RECORD = DecisionRecorder()


def ended_with(
    decision: Bind | Unschedulable,
    profile: Profile,
    attempts: int,
    started: float = 0.0,
    *,
    refusal: Refusal | None = None,
    message: str = "",
    search_start: int = 0,
    attempt: AttemptResult | None = None,
) -> EndedAttempt:
    """The end of an attempt that led to a decision; `refusal`: the chosen node was refused."""
    if isinstance(decision, Bind):
        return EndedAttempt(
            decision.pod,
            profile,
            attempts,
            started,
            SCHEDULED if refusal is None else _result(refusal.status),
            decision.node_name,
            decision.feasible_nodes,
            decision.total_score,
            message,
            refusal=refusal,
            search_start=search_start,
            attempt=attempt,
        )
    return EndedAttempt(
        decision.pod,
        profile,
        attempts,
        started,
        UNSCHEDULABLE if decision.code.rejected else ERROR,
        message=decision.message,
        nominated_node=decision.nominated_node or "",
        victims=decision.victims,
        search_start=search_start,
        attempt=attempt,
    )


def binding_ended(
    pod: Pod, profile: Profile, attempts: int, node_name: str, message: str, refusal: Refusal
) -> EndedAttempt:
    """A pod that was on its way to a node was refused there."""
    result = _result(refusal.status)
    return EndedAttempt(
        pod,
        profile,
        attempts,
        0.0,
        result,
        node_name,
        message=message,
        refusal=refusal,
        binding=True,
    )


def _result(status: Status) -> str:
    return UNSCHEDULABLE if status.code.rejected else ERROR
