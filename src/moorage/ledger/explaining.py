"""One attempt in the words of `explain.report`: who rejected which nodes, and the scores.

Owns the way from a track's columns to rejections, scores and rows of the matrix. What was decided
is told as it was found: the ledger asks no plugin.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.explain.grounds import Ground, grouped
from moorage.explain.report import (
    Matrix,
    NodeScores,
    NodeVerdicts,
    Rejection,
    ScorePart,
    Verdict,
)
from moorage.framework.diagnosis import EXTENDER as EXTENDER_PLUGIN
from moorage.framework.status import Code, Reason, worst
from moorage.ledger.rebuilding import Rebuilt, Values
from moorage.ledger.records import (
    CONSIDERED,
    EXTENDER,
    FILTER,
    NORMALIZED,
    OVERRULED,
    POINTS,
    RAW,
    SCORED,
    SILENT,
    SKIPPED,
    StatusWords,
    TrackRecord,
)

Bools = NDArray[np.bool_]

WORDLESS_REASON = "node(s) rejected, the reason was not worked out as the pod fits elsewhere"
"""Stands for the reason of a rejection that was found without words, on the short way."""


class Part(msgspec.Struct, frozen=True):
    """What one plugin scored, over all rows."""

    plugin: str
    weight: int
    raw: Values
    normalized: Values


class Evidence:
    """Everything that was found in one attempt."""

    def __init__(
        self,
        track: TrackRecord,
        names: Sequence[str],
        columns: Sequence[Rebuilt],
        note: StatusWords | None,
        *,
        node: str,
        scored: bool,
    ) -> None:
        self._track = track
        self.names = names
        self._columns = columns
        self._filters = sorted(
            (c for c in columns if c.spec.role == FILTER and c.mood != SKIPPED),
            key=lambda column: column.spec.place,
        )
        self.considered = self._mask(CONSIDERED, otherwise=True)
        self.grounds = tuple(self._grounds(note, node))
        self.rejected = np.zeros(len(names), np.bool_)
        for ground in self.grounds:
            if ground.point not in _AFTER_FILTER:
                self.rejected |= ground.rows
        self.feasible = self.considered & ~self.rejected
        self.parts = tuple(self._parts()) if scored else ()
        self.scored = self._mask(SCORED, otherwise=True) & self.feasible
        self.totals = np.zeros(len(names), np.int64)
        for part in self.parts:
            self.totals += part.normalized * part.weight

    @property
    def skipped_filters(self) -> tuple[str, ...]:
        """The Filter plugins that had nothing to say about the pod."""
        asked = {column.spec.plugin for column in self._filters}
        return tuple(name for name in self._track.filters if name not in asked)

    @property
    def skipped_scorers(self) -> tuple[str, ...]:
        """The Score plugins that had nothing to say, if nodes were scored."""
        scored = {part.plugin for part in self.parts}
        return tuple(name for name in self._track.scorers if scored and name not in scored)

    def _mask(self, role: str, *, otherwise: bool) -> Bools:
        for column in self._columns:
            if column.spec.role == role:
                mask: Bools = column.values != 0
                return mask
        return np.full(len(self.names), otherwise)

    # Rejections

    def _grounds(self, note: StatusWords | None, node: str) -> Iterator[Ground]:
        if note is not None:
            yield from _noted(note, self.names, self.considered, node)
        refused = np.zeros(len(self.names), np.bool_)
        for column in self._filters:
            refused |= column.values != 0
            plugin = column.spec.plugin
            for bit, words in enumerate(column.spec.reasons):
                rows = (column.values >> bit) & 1 != 0
                if rows.any():
                    reason = words.text or WORDLESS_REASON
                    yield Ground(plugin, "Filter", reason, words.code, rows & self.considered)
        for column in self._columns:
            role = column.spec.role
            if role not in (OVERRULED, EXTENDER):
                continue
            overruled = role == OVERRULED
            # Whoever is nominated to a node that is refused anyway brings nothing about.
            values = np.where(refused, 0, column.values) if overruled else column.values
            for number, status in enumerate(column.spec.statuses, 1):
                rows = values == number
                if rows.any():
                    plugin = status.plugin if overruled else EXTENDER_PLUGIN
                    point = "Filter" if overruled else "Extender"
                    for reason in dict.fromkeys(status.reasons or ("",)):
                        yield Ground(plugin, point, reason, status.code, rows, overruled)

    def rejections(self) -> tuple[Rejection, ...]:
        """Rejections grouped by plugin and reason, those of most nodes first."""
        grounds = [ground for ground in self.grounds if ground.rows.any()]
        return grouped(grounds, len(self.names), self.names.__getitem__, self._track.filters)

    # Scores

    def _parts(self) -> Iterator[Part]:
        columns = {(c.spec.plugin, c.spec.role): c for c in self._columns}
        scorers = [c for c in self._columns if c.spec.role in (POINTS, NORMALIZED)]
        for column in sorted(scorers, key=lambda column: column.spec.place):
            if column.mood == SKIPPED:
                continue
            spec = column.spec
            raw = columns.get((spec.plugin, RAW), column)
            zero = np.zeros_like(column.values)
            silent = column.mood == SILENT
            yield Part(
                spec.plugin,
                spec.weight,
                zero if silent else raw.values,
                zero if silent else column.values,
            )

    def best(self, top: int, chosen: str) -> tuple[NodeScores, ...]:
        """The best nodes, the chosen one first among equals and always there."""
        if not self.parts:
            return ()
        rows = np.flatnonzero(self.scored)
        at = self.row_of(chosen)
        order = rows[np.lexsort((rows != at, -self.totals[rows]))][: max(top, 0)].tolist()
        if at >= 0 and self.scored[at] and at not in order:
            order.append(at)
        return tuple(
            NodeScores(self.names[row], int(self.totals[row]), row == at, self.parts_of(row))
            for row in order
        )

    def row_of(self, name: str) -> int:
        """The row of a node, or -1."""
        return self.names.index(name) if name and name in self.names else -1

    def parts_of(self, row: int) -> tuple[ScorePart, ...]:
        """What every plugin gave a node."""
        return tuple(
            ScorePart(
                part.plugin,
                int(part.raw[row]),
                int(part.normalized[row]),
                part.weight,
                int(part.normalized[row]) * part.weight,
            )
            for part in self.parts
        )

    # The matrix

    def matrix(self, offset: int, limit: int) -> Matrix:
        """A page of the node x plugin matrix, in the order of node names."""
        names, offset = self.names, max(offset, 0)
        order = sorted(range(len(names)), key=names.__getitem__)
        plugins = (*self._track.filters, *self._strangers())
        page = order[offset : offset + max(limit, 0)]
        return Matrix(plugins, tuple(self._row(row, plugins) for row in page), len(names), offset)

    def _strangers(self) -> tuple[str, ...]:
        """Who else rejects nodes."""
        known = set(self._track.filters)
        others = (g.plugin for g in self.grounds if g.point not in _AFTER_FILTER)
        return tuple(dict.fromkeys(name for name in others if name not in known))

    def _row(self, row: int, plugins: Iterable[str]) -> NodeVerdicts:
        scored = bool(self.parts) and bool(self.scored[row])
        return NodeVerdicts(
            self.names[row],
            bool(self.feasible[row]),
            tuple(self._verdict(plugin, row) for plugin in plugins),
            int(self.totals[row]) if scored else None,
            self.parts_of(row) if scored else (),
        )

    def _verdict(self, plugin: str, row: int) -> Verdict:
        grounds = [
            ground
            for ground in self.grounds
            if ground.plugin == plugin and ground.rows[row] and ground.point not in _AFTER_FILTER
        ]
        if grounds:
            return _rejected(plugin, grounds)
        if plugin in self.skipped_filters:
            return Verdict(plugin, "skipped")
        if not self.considered[row] or self._unasked(plugin, row):
            return Verdict(plugin, "not considered")
        return Verdict(plugin, "ok")

    def _unasked(self, plugin: str, row: int) -> bool:
        for column in self._filters:
            if column.spec.plugin == plugin:
                return column.spec.by_node and bool(self.rejected[row])
        return bool(self.rejected[row])


_AFTER_FILTER = ("Reserve", "Permit", "PreBind", "Bind")
"""Points that are about the chosen node alone."""


def rejections_without_columns(
    note: StatusWords | None, nodes: int, node: str
) -> tuple[Rejection, ...]:
    """What is known of an attempt that did not get to the nodes, or has no columns."""
    if note is None:
        return ()
    after = note.point in _AFTER_FILTER
    count, examples = (1, (node,) if node else ()) if after else (nodes, ())
    return tuple(
        Rejection(
            plugin=note.plugin,
            reason=reason,
            nodes=count,
            examples=examples,
            point=note.point,
            code=note.code,
            only=count,
            unresolvable=count if note.code == Code.UNRESOLVABLE.value else 0,
        )
        for reason in dict.fromkeys(note.reasons or ("",))
    )


def _noted(
    note: StatusWords, names: Sequence[str], considered: Bools, node: str
) -> Iterator[Ground]:
    """A refusal that is about no column: of the rows not looked at, or of the chosen node."""
    rows = ~considered
    if note.point in _AFTER_FILTER:
        rows = np.array([name == node for name in names], np.bool_)
    for reason in dict.fromkeys(note.reasons or ("",)):
        yield Ground(note.plugin, note.point, reason, note.code, rows)


def _rejected(plugin: str, grounds: Sequence[Ground]) -> Verdict:
    reasons = tuple(dict.fromkeys(ground.reason for ground in grounds))
    codes = [Code(ground.code) for ground in grounds if ground.code]
    code = worst(Reason("", code) for code in codes).value if codes else ""
    return Verdict(plugin, "rejected", code, reasons)
