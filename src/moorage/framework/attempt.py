"""One attempt to place a pod: everything the plugins said, kept for whoever asks why.

The record is filled step by step by `engine.cycle`; PostFilter plugins read it and try out
hypotheses on it. It must not outlive the cycle: its views are valid only until the state changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.view import NodeView
from moorage.framework.diagnosis import Diagnosis
from moorage.framework.extenders import Extender
from moorage.framework.filtering import FilterOutcome, Hypothesis, PreFiltered
from moorage.framework.metering import SILENT, Meter
from moorage.framework.plugin import PostFilterResult
from moorage.framework.profile import Profile
from moorage.framework.scoring import Scores
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod


@dataclass(slots=True)
class Attempt:
    """What happened so far."""

    profile: Profile
    pod: Pod
    nodes: NodeView
    now: float
    within: Bools | None = None
    """The rows of the placement that is being tried for the pod's group; None for all."""
    nominated: Mapping[int, Sequence[Pod]] = field(default_factory=dict)
    """Row -> pods of at least equal priority nominated to it, the pod itself left out."""
    nominated_node: str = ""
    """The node that the pod itself waits for; its status may not name it yet."""
    extenders: Sequence[Extender] = ()
    """Who else is to be asked, in the order of asking."""
    meter: Meter = SILENT
    podless: bool = False
    """Did an extender's answer make the nodes look empty? See `framework.extenders.passing`."""
    before: PreFiltered = field(default_factory=PreFiltered)
    outcome: FilterOutcome | None = None
    scores: Scores | None = None
    scored: Rows | None = None
    """The rows that `scores` is about."""
    post_filter: PostFilterResult | None = None

    @property
    def diagnosis(self) -> Diagnosis:
        """Why nothing fits, if nothing does."""
        return Diagnosis(len(self.nodes), self.before, self.outcome, self.within)

    def status(self, row: int) -> Status:
        """Why a node was refused; nodes that were not looked at share one answer."""
        looked_at = self.outcome is not None and (
            bool(self.outcome.considered[row]) or row in self.outcome.refused
        )
        status = self.outcome.status(row) if self.outcome is not None and looked_at else None
        return status or self.diagnosis.absent_status or Status(Code.UNRESOLVABLE)

    def hypothesis(self, row: int) -> Hypothesis:
        """A node to try changes on."""
        return Hypothesis(self.profile, self.pod, self.nodes, self.before, row)
