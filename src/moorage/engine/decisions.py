"""What the engine decides, as values: carried out, printed or replayed by others."""

from typing import NamedTuple

import msgspec

from moorage import log_lines
from moorage.errors import MoorageError, reason_of
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod


class Refusal(NamedTuple):
    """The node chosen for a pod was refused after all."""

    status: Status
    point: str
    """The extension point that refused it."""


class Bind(msgspec.Struct, frozen=True):
    """The pod goes to a node."""

    pod: Pod
    node_name: str
    feasible_nodes: int = 0
    total_score: int | None = None
    evaluated_nodes: int = 0
    """How many nodes were looked at, feasible ones included."""


class Unschedulable(msgspec.Struct, frozen=True):
    """The pod goes nowhere for now."""

    pod: Pod
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = None
    """A node that preemption will free for it; "" takes an earlier nomination back."""
    victims: tuple[Pod, ...] = ()
    pdb_violations: int = 0
    code: Code = Code.UNSCHEDULABLE
    refusal: Refusal | None = None
    """Who refused the node that was chosen, if one was."""


class Gated(msgspec.Struct, frozen=True):
    """A PreEnqueue plugin keeps the pod out of the queue."""

    pod: Pod
    status: Status


Decision = Bind | Unschedulable | Gated


def error_decision(pod: Pod, error: BaseException) -> Unschedulable:
    """The decision about a pod whose attempt raised an error, which is logged."""
    return Unschedulable(pod, _logged_reason(pod, error), nominated_node="", code=Code.ERROR)


def error_status(pod: Pod, error: BaseException) -> Status:
    """The same as a status."""
    return Status(Code.ERROR, (_logged_reason(pod, error),))


def _logged_reason(pod: Pod, error: BaseException) -> str:
    """Why an attempt failed; the log has a traceback as well if nobody raised it on purpose."""
    reason = reason_of(error)
    log_lines.NO_NODE_SELECTED(
        reason, pod, trace=None if isinstance(error, MoorageError) else error
    )
    return reason


def refused_decision(pod: Pod, refusal: Refusal, *, waits: bool = True) -> Unschedulable:
    """The decision about a pod that was refused on the node chosen for it.

    `waits`: a rejection is told as if that node were the only one, and the plugin's events can
    bring the pod back.
    """
    status = refusal.status
    message, plugins = status.message, frozenset[str]()
    if waits and status.code.rejected:
        message, plugins = one_node_sentence(status), frozenset({status.plugin})
    return Unschedulable(
        pod, message, plugins, nominated_node="", code=status.code, refusal=refusal
    )


def one_node_sentence(status: Status) -> str:
    """A refusal as if the chosen node were the only one."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
    return f"0/1 nodes are available: {reasons}."
