"""Where extenders come into a cycle: after the filters, and beside the scores.

Owns what the cycle makes of their answers in columns. The rules are `framework.extenders`'. The
cycle waits for every answer: as upstream, pods are decided one after the other.
"""

import logging
from collections.abc import Sequence
from random import Random

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.cluster.state import ClusterState
from moorage.engine.selection import FeasibleNodes, best
from moorage.errors import ExtenderError
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import Extender, passing, points
from moorage.framework.outcomes import Scores

log = logging.getLogger(__name__)


class ExtenderStage:
    """All extenders of a scheduler, in the order of asking; without any it is never called."""

    def __init__(
        self, state: ClusterState, extenders: Sequence[Extender], random: Random | None
    ) -> None:
        self.extenders = tuple(extenders)
        self.filters_or_ranks = any(one.filters or one.prioritizes for one in self.extenders)
        """Does anybody care which nodes are found? Then one is not enough."""
        self._state = state
        self._random = random or Random()

    def nominated_if_passing(self, attempt: AttemptResult, row: int) -> Rows:
        """The nominated node if they agree; as upstream, an error is no answer here."""
        try:
            return self._passing(attempt, [row])
        except ExtenderError as error:
            log.error("pod %s: its nominated node: %s", attempt.pod.key, error)
            return np.zeros(0, np.intp)

    def passing(self, attempt: AttemptResult, feasible: Rows, looked_at: Rows) -> Rows:
        """The rows that are left; where none is, the outcome tells why."""
        outcome = attempt.outcome
        assert outcome is not None, "extenders are asked after the plugins"
        asked = feasible.tolist()
        left = self._passing(attempt, asked)
        taken = set(asked).difference(left.tolist())
        if taken:
            outcome.thin_out(taken)
        if not len(left):
            # A search that ended early knows nothing of the nodes it did not get to.
            seen = np.zeros(len(outcome.considered), np.bool_)
            seen[looked_at] = True
            outcome.considered &= seen
        return left

    def _passing(self, attempt: AttemptResult, rows: Sequence[int]) -> Rows:
        assert attempt.outcome is not None, "extenders are asked after the plugins"
        left, attempt.podless = passing(
            self.extenders, attempt.pod, attempt.nodes, rows, attempt.outcome
        )
        return np.array(left, np.intp)

    def best(self, attempt: AttemptResult, scores: Scores, found: FeasibleNodes) -> int:
        """Add the extenders' points; of equals that extenders named, chance takes one."""
        nodes, rows = self._state.nodes.nodes, found.rows
        order = np.argsort(found.places(rows), kind="stable")
        given = points(self.extenders, attempt.pod, [nodes[row] for row in rows], order)
        totals = scores.totals + given.total
        attempt.scores = msgspec.structs.replace(
            scores, totals=totals, parts=(*scores.parts, *given.parts)
        )
        ties = rows[(totals == totals.max()) & given.named]
        if len(ties):
            return int(self._random.choice(ties.tolist()))
        return best(found, totals, self._state.nodes.emptiness.values)
