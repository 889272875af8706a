"""An attempt to place a pod, as one value: what every plugin said, and what came of it.

`framework.runner` fills it in; the cycle, preemption, explanations, metrics and the ledger read it.
Arrays that plugins answered with are valid until the next attempt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from moorage import log_lines
from moorage.cluster.columns import Bools, Rows
from moorage.cluster.view import NodeView
from moorage.framework.diagnosis import Diagnosis, decisive_rows
from moorage.framework.extenders import Extender
from moorage.framework.fast_path import KeptAnswers
from moorage.framework.guard import guard
from moorage.framework.outcomes import FilterOutcome, PreFiltered, Scores
from moorage.framework.plugin import FilterPlugin, PostFilterResult
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.framework.timing import UNTIMED, AttemptTimes
from moorage.model.pod import Pod


@dataclass(slots=True)
class AttemptResult:
    """What happened to a pod so far."""

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
    times: AttemptTimes = UNTIMED
    in_group: bool = False
    """Is the pod tried with its group? Then PostFilter is not asked about it alone."""
    podless: bool = False
    """Did an extender's answer make the nodes look empty? See `framework.extenders.passing`."""
    kept: Mapping[str, KeptAnswers] = field(default_factory=dict)
    """By plugin, answers to pods that look the same to it; the others are asked."""
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

    @property
    def totals(self) -> dict[str, int]:
        """What the nodes scored, by name; empty where only one would do."""
        if self.scores is None or self.scored is None:
            return {}
        names = (self.nodes.node(row).name for row in self.scored.tolist())
        return dict(zip(names, self.scores.totals.tolist(), strict=True))

    def log_filtering(self) -> None:
        """Log why PreFilter refused the pod; each plugin logs the nodes it was first to refuse."""
        pod, outcome, rejection = self.pod, self.outcome, self.before.rejection
        if rejection is not None:
            log_lines.PRE_FILTERED(pod, rejection.message)
        if outcome is None:
            return
        nominated = self.nodes.row_of(pod.status.nominated_node_name)
        if nominated is not None and outcome.accepts(nominated):
            return  # upstream does not ask about the other nodes
        for name, rows, _ in decisive_rows(outcome):
            plugin = self.profile.plugins[name]
            if isinstance(plugin, FilterPlugin) and rows.any():
                state = self.before.states.get(name)
                with guard(plugin, "Filter"):
                    plugin.log_rejections(pod, self.nodes, np.flatnonzero(rows), state)

    def status(self, row: int) -> Status:
        """Why a node was rejected; nodes that were not looked at share one answer."""
        outcome = self.outcome
        looked_at = outcome is not None and (
            bool(outcome.considered[row]) or row in outcome.refused
        )
        status = outcome.status(row) if outcome is not None and looked_at else None
        return status or self.before.absent_status or Status(Code.UNRESOLVABLE)
