"""What a ledger can learn of each scheduling attempt.

Owns the list of things worth recording; the recording is somebody else's. As with `engine.observer`
the base class ignores everything, so that an engine without a ledger does no work: whoever has to
work something out for the record asks `on` first.

An attempt is told in two steps. The cycle tells what it *found*, before anything changes: which
node, and what every plugin said. The scheduler tells how the attempt *finished*, Reserve and Permit
included. What was found but never finished (somebody only asked why) is never recorded.
"""

from collections.abc import Sequence
from typing import NamedTuple

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.view import NodeView
from moorage.engine.decisions import Bind, Unschedulable
from moorage.framework.attempt import Attempt
from moorage.framework.profile import Profile
from moorage.framework.rankings import Ranking
from moorage.model.pod import Pod


class LiveRefusals(NamedTuple):
    """What a plugin that is asked for every pod refused on the short way."""

    plugin: str
    refused: Bools


class LiveScores(NamedTuple):
    """What a plugin scored on the short way, over `rows` (None: over all of them)."""

    plugin: str
    rows: Rows | None
    raw: Ints
    """Nobody may change it later."""
    normalized: Ints


class ShortEvidence(NamedTuple):
    """A node that was found on the short way."""

    profile: Profile
    ranking: Ranking
    nodes: NodeView
    row: int
    feasible: int
    total: int | None
    """None: the node was the only one, and nothing was scored."""
    refusals: Sequence[LiveRefusals] = ()
    scores: Sequence[LiveScores] = ()
    unfiltered: Sequence[str] = ()
    """Live plugins that had nothing to say about the pod where nodes are filtered ..."""
    unscored: Sequence[str] = ()
    """... and where they are scored."""


class AttemptEnd(NamedTuple):
    """How an attempt ended."""

    profile: str
    result: str
    """One of the words in `engine.observer`."""
    node_name: str = ""
    """Where the pod goes, or was refused in the end."""
    message: str = ""
    nominated_node: str = ""
    attempts: int = 0
    started: float = 0.0
    """What `start` gave."""
    point: str = ""
    """The extension point that refused the chosen node, if one did ..."""
    plugin: str = ""
    """... and the plugin."""
    code: str = ""


class DecisionRecorder:
    """Is told of attempts; must not call back. This one ignores everything."""

    on = False
    """Is it worth working out what to tell?"""

    def start(self) -> float:
        """An attempt begins; the answer goes into its `AttemptEnd`."""
        return 0.0

    def found_shortly(self, evidence: ShortEvidence) -> None:
        """The short way led to a node."""

    def found(
        self, attempt: Attempt, decision: Bind | Unschedulable, scored: Rows | None = None
    ) -> None:
        """The plain path led to a node, or to none; `scored` are the rows of its scores."""

    def evidence(self) -> object:
        """What was found last, to be kept by whoever finishes the attempt later; forgets it."""
        return None

    def finished(self, pod: Pod, end: AttemptEnd, evidence: object = None) -> None:
        """An attempt ended; without `evidence`, what was found last is what it is about."""

    def rest(self) -> float | None:
        """There is nothing to decide now; in so many seconds it would like to hear that again."""
        return None


NO_RECORD = DecisionRecorder()
