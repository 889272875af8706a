"""Answers of `moorage explain` from a ledger on disk; no cluster is needed.

Owns what a ledger can say of pods and nodes: what was found when a pod was last tried, which is all
it knows. It asks no plugin, so it has no fixes.
"""

from collections.abc import Iterator
from pathlib import Path

from moorage.cli.explain_sources import ALL_ROWS, PodQuestion, decision_number
from moorage.cli.output import warn
from moorage.errors import InputError
from moorage.explain.listing import DecisionPage
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    NodeExplanation,
    NodePod,
    NodeRefusal,
    NodeVerdicts,
    PodExplanation,
)
from moorage.ledger import Reader, open_ledger

SOURCE = "ledger"
_SCHEDULED = "scheduled"
_BATCH = 1000
_MOST_WAITING = 200
"""So many refused pods are asked about one node; each has its columns rebuilt."""


class LedgerSource:
    """Decisions that a scheduler wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reader: Reader = open_ledger(path)
        for problem in self._reader.problems:
            warn(problem)

    def pod(self, asked: PodQuestion) -> PodExplanation:
        """What was found when the pod was last tried."""
        number = self._latest(asked.name)
        rows = ALL_ROWS if asked.nodes else asked.rows
        told = self._reader.explain(number, top=asked.top, matrix=(0, rows) if rows else None)
        one = told.decision
        return PodExplanation(
            pod=one.pod,
            schedulable=one.result == _SCHEDULED,
            nodes=one.nodes,
            feasible=one.feasible,
            message=one.message,
            source=SOURCE,
            rejections=told.rejections,
            uid=one.uid,
            scheduler_name=one.profile,
            node=one.node or None,
            scores=told.scores,
            skipped_filter_plugins=told.skipped_filter_plugins,
            skipped_score_plugins=told.skipped_score_plugins,
            matrix=told.matrix if asked.rows else None,
            asked=_rows(told, asked.nodes),
            decision=number,
        )

    def node(self, name: str) -> NodeExplanation:
        """Which pods were scheduled to the node, and why it was not for those refused last."""
        placed: list[str] = []
        refused: list[DecisionSummary] = []
        seen: set[str] = set()
        for one in self._newest_first():
            if one.pod in seen:
                continue
            seen.add(one.pod)
            if one.result != _SCHEDULED:
                refused.append(one)
            elif one.node == name:
                placed.append(one.pod)
        rows = [(one.pod, self._row(one.number, name)) for one in refused[:_MOST_WAITING]]
        known = [(pod, row) for pod, row in rows if row is not None]
        if not (placed or known or self._reader.knows_node(name)):
            raise InputError(f"node {name} is in no decision of {self._path}")
        return NodeExplanation(
            node=name,
            source=SOURCE,
            pods=len(placed),
            pod_list=tuple(map(NodePod, sorted(placed))),
            accepts=tuple(pod for pod, row in known if row.feasible),
            refusals=tuple(
                NodeRefusal(pod, tuple(v for v in row.verdicts if v.verdict == "rejected"))
                for pod, row in known
                if not row.feasible
            ),
            waiting=len(refused),
        )

    def decision(self, which: str, *, top: int, rows: int) -> DecisionExplanation:
        """The decision of this number, or the latest one about this pod."""
        number = decision_number(which)
        if number is None:
            number = self._latest(which)
        return self._reader.explain(number, top=top, matrix=(0, rows) if rows else None)

    def decisions(self, limit: int) -> DecisionPage:
        """The latest decisions, newest first."""
        return DecisionPage(tuple(self._reader.summaries(limit=limit)))

    def _latest(self, name: str) -> int:
        key = name if "/" in name else f"default/{name}"
        number = self._reader.latest_about(key)
        if number is None and "/" not in name:
            number = self._anywhere(name)
        if number is None:
            raise InputError(f"{self._path} holds no decision about pod {name}")
        return number

    def _anywhere(self, name: str) -> int | None:
        """The latest decision about the one pod of a bare name."""
        found: dict[str, int] = {}
        for one in self._newest_first():
            if one.pod.partition("/")[2] == name:
                found.setdefault(one.pod, one.number)
        if len(found) > 1:
            known = ", ".join(sorted(found))
            raise InputError(f"several pods are called {name}: {known}; name one in full")
        return next(iter(found.values()), None)

    def _newest_first(self) -> Iterator[DecisionSummary]:
        before: int | None = None
        while found := self._reader.summaries(before=before, limit=_BATCH):
            yield from found
            before = found[-1].number

    def _row(self, number: int, node: str) -> NodeVerdicts | None:
        """What a decision found of one node; None if it was not there or nothing is known."""
        try:
            evidence = self._reader.evidence(number)
        except (InputError, ValueError, IndexError):  # damaged; others can be read
            return None
        if evidence is None or evidence.row_of(node) < 0:
            return None
        (row,) = evidence.matrix(sorted(evidence.names).index(node), 1).rows
        return row


def _rows(told: DecisionExplanation, nodes: tuple[str, ...]) -> tuple[NodeVerdicts, ...]:
    if not nodes:
        return ()
    known = {row.node: row for row in told.matrix.rows} if told.matrix is not None else {}
    for name in nodes:
        if name not in known:
            raise InputError(
                f"node {name} is not one of the {len(known)} nodes of decision "
                f"{told.decision.number}"
            )
    return tuple(known[name] for name in nodes)
