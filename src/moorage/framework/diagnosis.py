"""Why a pod fits nowhere, in upstream's one sentence: `0/5 nodes are available: ...`.

Only here are reasons counted, and only when nothing was feasible.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.framework.outcomes import FilterOutcome, PreFiltered
from moorage.framework.status import Code, Status, Verdicts

CodeTest = Callable[[Code], bool]

EXTENDER = "Extender"
"""Stands for all extenders among the plugins that reject pods."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What kept a pod from every node."""

    nodes: int
    before: PreFiltered
    outcome: FilterOutcome | None = None
    """None: PreFilter refused the pod, no node was looked at."""
    within: Bools | None = None
    """The rows of a placement; the others do not count as nodes at all."""

    @property
    def offered(self) -> int:
        """How many nodes the pod could have gone to."""
        return self.nodes if self.within is None else int(np.count_nonzero(self.within))

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that an event must un-reject before another attempt makes sense."""
        plugins = self._plugins_with(lambda code: code.rejected) | self.before.named.keys()
        if self.outcome is not None and self.outcome.thinned:
            plugins |= {EXTENDER}
        return plugins

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that only asked for patience."""
        return self._plugins_with(lambda code: code is Code.PENDING)

    def _plugins_with(self, wanted: CodeTest) -> frozenset[str]:
        """The plugins whose (first) answer to some node has a code of a kind."""
        rejection = self.before.rejection
        names: set[str] = set()
        if rejection is not None and rejection.plugin and wanted(rejection.code):
            names.add(rejection.plugin)
        if self.outcome is not None:
            for name, decisive, verdicts in decisive_rows(self.outcome):
                codes = {reason.code for reason in verdicts.reasons if wanted(reason.code)}
                if (decisive & verdicts.with_code(codes)).any():
                    names.add(name)
            overruled = _distinct(self.outcome.overruled.values())
            names |= {status.plugin for status, _ in overruled if wanted(status.code)}
        return frozenset(names)

    def resolvable_rows(self) -> Bools:
        """The rows whose refusal might be cured by evicting pods: candidates for preemption."""
        absent = self.before.absent_status
        if self.outcome is None:
            curable = absent is not None and absent.code is Code.UNSCHEDULABLE
            return np.full(self.nodes, curable)
        outcome = self.outcome
        curable_rows = outcome.considered & outcome.rejected
        for _, decisive, verdicts in decisive_rows(outcome):
            incurable = {reason.code for reason in verdicts.reasons} - {Code.UNSCHEDULABLE}
            curable_rows &= ~(decisive & verdicts.with_code(incurable))
        for row, status in outcome.overruled.items():
            curable_rows[row] = status.code is Code.UNSCHEDULABLE
        for row, status in outcome.refused.items():
            curable_rows[row] = status.code is Code.UNSCHEDULABLE
        return curable_rows

    def message(self, post_filter: str = "") -> str:
        """The sentence in the pod's condition and event."""
        text = f"0/{self.offered} nodes are available:"
        rejection = self.before.rejection
        if rejection is not None:
            text += f" {rejection.message}."
        else:
            counts = sorted(
                f"{count} {reason}" for reason, count in self._reasons().items() if count
            )
            if counts:
                text += f" {', '.join(counts)}."
        return f"{text} {post_filter}" if post_filter else text

    def _reasons(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        outcome = self.outcome
        if outcome is None:
            return counts
        refused = list(outcome.refused)
        for _, decisive, verdicts in decisive_rows(outcome):
            decisive[refused] = False
            for reason, rows in verdicts.by_reason():
                counts[reason.text] += int(np.count_nonzero(rows & decisive))
        overruled = {row: s for row, s in outcome.overruled.items() if row not in outcome.refused}
        for told in (overruled, outcome.refused, outcome.unknown_nodes):
            for status, times in _distinct(told.values()):
                for text in status.reasons:
                    counts[text] += times
        absent = self.before.absent_status
        seen = outcome.considered & outcome.rejected
        seen[refused] = True
        unseen = self.offered - int(np.count_nonzero(seen)) - len(outcome.unknown_nodes)
        if absent is not None and unseen > 0:
            for text in absent.reasons:
                counts[text] += unseen
        return counts


def decisive_rows(outcome: FilterOutcome) -> Sequence[tuple[str, Bools, Verdicts]]:
    """Per plugin that refuses any, the rows where it was the first: those that upstream reports."""
    undecided = outcome.considered.copy()
    undecided[list(outcome.overruled)] = False
    result = []
    for name, verdicts in outcome.verdicts:
        if not np.count_nonzero(verdicts.bits):
            continue  # as most plugins do most of the time
        decisive = undecided & verdicts.rejected
        undecided &= ~decisive
        result.append((name, decisive, verdicts))
    return result


def _distinct(statuses: Collection[Status]) -> Sequence[tuple[Status, int]]:
    """Statuses and how often they come; rows refused together share one, so identity will do."""
    if not statuses:
        return ()
    by_identity = {id(status): status for status in statuses}
    times = Counter(map(id, statuses))
    return [(status, times[key]) for key, status in by_identity.items()]
