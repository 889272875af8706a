"""What a ledger can learn of each scheduling attempt.

Owns the list of things worth recording; the recording is somebody else's. As with `engine.observer`
the base class ignores everything, so that an engine without a ledger does no work: whoever has to
work something out for the record asks `on` first.

An attempt is told in two steps. The cycle tells what it *found*, before anything changes: which
node, and what every plugin said. The scheduler tells how the attempt *ended*, Reserve and Permit
included. What was found in an attempt that never ends (somebody only asked why) is not recorded.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.view import NodeView
from moorage.engine.decisions import Bind, Refusal, Unschedulable
from moorage.engine.observer import ERROR, UNSCHEDULABLE
from moorage.framework.attempt import Attempt
from moorage.framework.plugin import FilterPlugin, ScorePlugin
from moorage.framework.profile import Profile
from moorage.framework.rankings import Ranking
from moorage.framework.status import Status
from moorage.model.pod import Pod

LiveRefusals = tuple[FilterPlugin[Any], Bools, Any]
"""What a plugin that is asked for every pod refused on the short way: the plugin, the rows, and the
plugin's state."""

LiveScores = tuple[ScorePlugin[Any], Rows | None, Ints | None, Ints | None, Any]
"""What a plugin scored on the short way: the plugin, which rows (None: all), raw (None: as the
ranking has it) and normalised (None: all 0), and the plugin's state.

Scores of rows that are not feasible mean nothing.

Plain tuples, as one is made for every plugin and pod.
"""


class ShortFindings(Protocol):
    """What was found about a pod on the short way; to be read before plugins are asked again."""

    profile: Profile
    pod: Pod
    ranking: Ranking
    nodes: NodeView
    feasible: int
    total: int | None
    """Without a total the node was the only one."""
    blocked: Bools | None
    """The rows that live filters refuse, all of them together; None if none was asked."""
    refusals: list[LiveRefusals]
    scores: list[LiveScores]
    unfiltered: list[str]
    """Live plugins that had nothing to say about the pod where nodes are filtered ..."""
    unscored: list[str]
    """... and where they are scored."""
    silent: Sequence[str]
    """Live scorers that had nothing to say and no PreScore part to say so; () if none was asked."""


class Setback(NamedTuple):
    """How an attempt ended that did not send its pod to a node."""

    result: str
    """`UNSCHEDULABLE` or `ERROR` of `engine.observer`."""
    message: str
    node_name: str = ""
    """Where the pod was refused in the end."""
    nominated_node: str = ""
    point: str = ""
    """The extension point that refused the chosen node, if one did ..."""
    refusal: Status | None = None
    """... and what it said."""


class DecisionRecorder:
    """Is told of attempts; must not call back. This one ignores everything."""

    # No defaults in the class: Python is quicker with attributes that only the instance has.
    on: bool
    """Is it worth working out what to tell?"""
    clock: Callable[[], float]
    """What time is it? To be read when an attempt begins, and given back when it ends."""
    short: ShortFindings | None
    """The short way led to a node: how. Is left here instead of told, which would cost a call."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = float) -> None:
        """Without a clock it is always 0.0."""
        self.on = on
        self.clock = clock
        self.short = None

    def found(self, attempt: Attempt, decision: Bind | Unschedulable) -> None:
        """The plain path led to a node, or to none."""

    def evidence(self, pod: Pod) -> object:
        """What was found last, to be kept by whoever ends the attempt later; forgets it."""
        del pod
        return None

    def scheduled(
        self,
        pod: Pod,
        profile: Profile,
        node_name: str,
        attempts: int,
        started: float,
        evidence: object = None,
    ) -> None:
        """An attempt sent its pod to a node; what was found last is how, without `evidence`."""

    def failed(
        self,
        pod: Pod,
        profile: Profile,
        setback: Setback,
        attempts: int,
        started: float,
        evidence: object = None,
    ) -> None:
        """An attempt failed."""

    def rest(self) -> float | None:
        """There is nothing to decide now; in so many seconds it would like to hear that again."""
        return None


NO_RECORD = DecisionRecorder()


def setback_of(decision: Unschedulable) -> Setback:
    """No node was found."""
    result = UNSCHEDULABLE if decision.code.rejected else ERROR
    return Setback(result, decision.message, "", decision.nominated_node or "")


def setback_on(node_name: str, message: str, refusal: Refusal) -> Setback:
    """The chosen node was refused after all."""
    status, point = refusal
    result = UNSCHEDULABLE if status.code.rejected else ERROR
    return Setback(result, message, node_name, "", point, status)
