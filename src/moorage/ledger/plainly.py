"""Tracks of attempts on the plain path: every plugin's verdicts and scores, compared with the last.

Attempts of one profile in which the same plugins spoke share a track. A plugin that is asked node
by node is not asked about nodes that others refused before; what it has kept about those is left
out.
"""

from collections.abc import Mapping

import numpy as np

from moorage.framework.attempt import Attempt
from moorage.framework.filtering import FilterOutcome
from moorage.framework.status import Status
from moorage.ledger.column import Column
from moorage.ledger.held import Array
from moorage.ledger.names import NameTable
from moorage.ledger.records import (
    CONSIDERED,
    EXTENDER,
    FILTER,
    NORMALIZED,
    OVERRULED,
    RAW,
    SCORED,
    status_words,
)
from moorage.ledger.tracks import Track, plugins_of
from moorage.ledger.wording import as_bits

_CONSIDERED, _OVERRULED, _EXTENDER, _SCORED, _FIRST_FILTER = range(5)

Kind = tuple[object, ...]


def kind_of(attempt: Attempt) -> Kind:
    """Attempts of one kind share a track."""
    outcome, scores = attempt.outcome, attempt.scores
    assert outcome is not None, "an attempt without verdicts has no track"
    return (
        id(attempt.profile),
        len(attempt.nodes),
        tuple(name for name, _ in outcome.verdicts),
        attempt.before.skipped,
        None if scores is None else (tuple(part.plugin for part in scores.parts), scores.skipped),
    )


class PlainTrack(Track):
    """Attempts of one kind."""

    def __init__(self, attempt: Attempt, names: NameTable) -> None:
        profile, outcome = attempt.profile, attempt.outcome
        assert outcome is not None, "an attempt without verdicts has no track"
        size = len(attempt.nodes)
        columns = [
            Column(CONSIDERED, np.zeros(size, np.bool_)),
            Column(OVERRULED, np.zeros(size, np.int64)),
            Column(EXTENDER, np.zeros(size, np.int64)),
            Column(SCORED, np.zeros(size, np.bool_)),
        ]
        for index in (_CONSIDERED, _SCORED):
            columns[index].is_bytes = True
        by_name = {plugin.name: plugin for plugin in profile.filter}
        places = {name: place for place, name in enumerate(by_name)}
        for name, verdicts in outcome.verdicts:
            now = np.zeros(size, verdicts.bits.dtype)
            columns.append(Column(FILTER, now, name, places[name]))
            columns[-1].by_node = by_name[name].by_node
        self._first_score = len(columns)
        scores = attempt.scores
        weights = {**{one.name: one.weight for one in attempt.extenders}, **profile.weights}
        for place, part in enumerate(() if scores is None else scores.parts):
            weight = weights.get(part.plugin, 1)
            for role in (RAW, NORMALIZED):
                now = np.zeros(size, np.int64)
                columns.append(Column(role, now, part.plugin, place, weight))
        plugins = plugins_of(profile)
        super().__init__(profile.name, names, columns, short=False, plugins=plugins)
        self.profile_object = profile
        """Kept so that no other profile can have its id."""

    def take(self, attempt: Attempt) -> None:
        """Write how an attempt differs from the last one."""
        outcome = attempt.outcome
        assert outcome is not None, "an attempt without verdicts has no track"
        self.forget_parts()
        self.update(_CONSIDERED, outcome.considered)
        self._take_statuses(_OVERRULED, outcome.overruled)
        self._take_statuses(_EXTENDER, outcome.refused)
        self._take_verdicts(outcome)
        scores, scored = attempt.scores, attempt.scored
        if scores is None or scored is None:
            return
        mask = np.zeros(len(attempt.nodes), np.bool_)
        mask[scored] = True
        self.update(_SCORED, mask)
        rows = None if len(scored) == len(mask) else scored
        for place, part in enumerate(scores.parts):
            index = self._first_score + 2 * place
            weight = max(self.columns[index].weight, 1)
            self.update(index, part.raw, rows)
            self.update(index + 1, part.weighted // weight, rows)

    def _take_verdicts(self, outcome: FilterOutcome) -> None:
        refused: Array | None = None
        for index, (_, verdicts) in enumerate(outcome.verdicts, _FIRST_FILTER):
            column = self.columns[index]
            bits = as_bits(verdicts, column.reasons)
            if column.by_node:
                if refused is None:
                    refused = ~outcome.considered
                    for _, before in outcome.verdicts[: index - _FIRST_FILTER]:
                        refused = refused | before.rejected
                bits = np.where(refused, bits.dtype.type(0), bits)
            self.update(index, bits)
            if refused is not None:
                refused = refused | (bits != 0)

    def _take_statuses(self, index: int, statuses: Mapping[int, Status]) -> None:
        column = self.columns[index]
        if not statuses and not column.now.any():
            return
        now = np.zeros(len(column.now), np.int64)
        for row, status in statuses.items():
            words = status_words(status)
            if words not in column.statuses:
                column.statuses.append(words)
            now[row] = column.statuses.index(words) + 1
        self.update(index, now)
