"""What the engine decides, as values: carried out, printed or replayed by others."""

import logging
from typing import NamedTuple

import msgspec

from moorage.errors import MoorageError
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)


class Bind(msgspec.Struct, frozen=True):
    """The pod goes to a node."""

    pod: Pod
    node_name: str
    feasible_nodes: int = 0
    total_score: int | None = None


class Unschedulable(msgspec.Struct, frozen=True):
    """The pod goes nowhere for now."""

    pod: Pod
    message: str
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nominated_node: str | None = None
    """A node that preemption will free for it; "" takes an earlier nomination back."""
    victims: tuple[Pod, ...] = ()
    code: Code = Code.UNSCHEDULABLE


class Gated(msgspec.Struct, frozen=True):
    """A PreEnqueue plugin keeps the pod out of the queue."""

    pod: Pod
    status: Status


Decision = Bind | Unschedulable | Gated


class Refusal(NamedTuple):
    """The node chosen for a pod was refused after all."""

    status: Status
    point: str
    """The extension point that refused it."""


def broken(pod: Pod, error: BaseException) -> Unschedulable:
    """The decision about a pod whose attempt broke; the log says where if that is a surprise."""
    if isinstance(error, MoorageError):
        text = str(error)
        log.error("pod %s: %s", pod.key, text)
    else:
        text = f"{type(error).__name__}: {error}"
        log.error("pod %s: %s", pod.key, text, exc_info=error)
    return Unschedulable(pod, text, nominated_node="", code=Code.ERROR)


def refused_there(pod: Pod, refusal: Refusal) -> Unschedulable:
    """The decision about a pod that Reserve or Permit refused on the node chosen for it."""
    status = refusal.status
    rejected = status.code.rejected
    return Unschedulable(
        pod,
        one_node_sentence(status) if rejected else status.message,
        frozenset({status.plugin}) if rejected else frozenset(),
        nominated_node="",
        code=status.code,
    )


def one_node_sentence(status: Status) -> str:
    """A refusal as if the chosen node were the only one."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in status.reasons))
    return f"0/1 nodes are available: {reasons}."
