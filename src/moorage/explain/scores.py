"""Why this node and not that one: scores part by part, and the node x plugin matrix.

Owns the way from the framework's columns of scores, and from a survey's rejections, to rows that
people read. Must not ask plugins with consequences: see `explain.trials`.
"""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Rows
from moorage.cluster.view import NodeView
from moorage.explain.report import Matrix, NodeScores, NodeVerdicts, ScorePart, Verdict
from moorage.explain.survey import RejectedRows, Survey
from moorage.framework.diagnosis import EXTENDER
from moorage.framework.outcomes import Scores
from moorage.framework.status import worst

OK = "ok"
REJECTED = "rejected"
SKIPPED = "skipped"
NOT_CONSIDERED = "not considered"


class Scored(msgspec.Struct, frozen=True):
    """Scores over some feasible rows, which are in ascending order."""

    nodes: NodeView
    rows: Rows
    scores: Scores

    @property
    def skipped(self) -> tuple[str, ...]:
        """The Score plugins that have nothing to say about the pod."""
        return tuple(sorted(self.scores.skipped))

    def place_of(self, row: int) -> int | None:
        """Where a row stands, if it was scored."""
        place = int(np.searchsorted(self.rows, row))
        found = place < len(self.rows) and self.rows[place] == row
        return place if found else None

    def total(self, place: int) -> int:
        """All that a node gets."""
        return int(self.scores.totals[place])

    def parts(self, place: int) -> tuple[ScorePart, ...]:
        """What every plugin gives a node."""
        return tuple(
            ScorePart(
                part.plugin,
                int(part.raw[place]),
                int(part.normalized[place]),
                part.weight,
                int(part.weighted[place]),
            )
            for part in self.scores.parts
        )


def best_nodes(
    scored: Scored, *, chosen: str | None, top: int, named: Sequence[str] = ()
) -> tuple[NodeScores, ...]:
    """The best nodes, the chosen one first among equals; then feasible ones asked for by name."""
    totals = scored.scores.totals
    at = None if chosen is None else scored.nodes.row_of(chosen)
    later = scored.rows != (-1 if at is None else at)
    order = np.lexsort((later, -totals))
    places = [int(place) for place in order[: max(top, 0)]]
    for name in (*named, *(() if chosen is None else (chosen,))):
        row = scored.nodes.row_of(name)
        place = None if row is None else scored.place_of(row)
        if place is not None and place not in places:
            places.append(place)
    rows_shown = []
    for place in places:
        name = scored.nodes.node(int(scored.rows[place])).name
        rows_shown.append(
            NodeScores(name, scored.total(place), name == chosen, scored.parts(place))
        )
    return tuple(rows_shown)


def matrix_page(found: Survey, scored: Scored | None, offset: int, limit: int) -> Matrix:
    """Some rows of the node x plugin matrix, by the nodes' names."""
    names = found.nodes.names()
    order = sorted(range(len(names)), key=names.__getitem__)
    offset = max(offset, 0)
    page = order[offset : offset + max(limit, 0)]
    return Matrix(found.asked, matrix_rows(found, scored, page), len(names), offset)


def matrix_rows(
    found: Survey, scored: Scored | None, rows: Iterable[int]
) -> tuple[NodeVerdicts, ...]:
    """The rows of the matrix for some nodes."""
    columns = _columns(found)
    rejected = found.rejected
    rows_shown = []
    for row in rows:
        place = None if scored is None else scored.place_of(row)
        rows_shown.append(
            NodeVerdicts(
                found.nodes.node(row).name,
                not rejected[row],
                tuple(column.verdict(row) for column in columns),
                None if scored is None or place is None else scored.total(place),
                () if scored is None or place is None else scored.parts(place),
            )
        )
    return tuple(rows_shown)


class _Column(msgspec.Struct, frozen=True):
    """What one plugin says; `otherwise` where it does not reject a row."""

    plugin: str
    rejections: tuple[RejectedRows, ...]
    otherwise: Verdict
    unasked: Bools | None = None
    """The rows that it was not asked about, because others reject them."""

    def verdict(self, row: int) -> Verdict:
        """What it says of one row."""
        found = [one for one in self.rejections if one.rows[row]]
        if not found:
            unasked = self.unasked is not None and self.unasked[row]
            return Verdict(self.plugin, NOT_CONSIDERED) if unasked else self.otherwise
        code = worst(one.reason for one in found)
        reasons = tuple(dict.fromkeys(one.reason.text for one in found))
        return Verdict(self.plugin, REJECTED, code.value, reasons)


def _columns(found: Survey) -> list[_Column]:
    by_plugin: dict[str, list[RejectedRows]] = {}
    for one in found.rejections:
        by_plugin.setdefault(one.plugin, []).append(one)
    unasked = found.rejected_by(by_plugin.keys() - {EXTENDER})
    return [
        _Column(
            plugin,
            tuple(by_plugin.get(plugin, ())),
            Verdict(plugin, SKIPPED if plugin in found.skipped else OK),
            unasked if plugin == EXTENDER else None,
        )
        for plugin in found.asked
    ]
