"""Answers of `moorage explain` from a ledger on disk; no cluster is needed.

Owns what is asked about where: a pod when it was last tried, a node as the ledger leaves it.
"""

from collections.abc import Iterator
from pathlib import Path

from moorage.cli.explain_sources import PodQuestion, decision_number
from moorage.cli.output import warn
from moorage.errors import InputError
from moorage.explain.listing import DecisionPage
from moorage.explain.nodes import explain_node
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    NodeExplanation,
    PodExplanation,
)
from moorage.ledger import Reader, open_ledger
from moorage.ledger.explaining import SOURCE, explain_recorded_pod
from moorage.ledger.moment import finish

_BATCH = 1000


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
        moment, decision = finish(self._reader.moment(number))
        return explain_recorded_pod(
            moment,
            decision,
            top=asked.top,
            nodes=asked.nodes,
            matrix=(0, asked.rows) if asked.rows else None,
            fixes=asked.fixes,
        )

    def node(self, name: str) -> NodeExplanation:
        """The node as it was after everything that is recorded."""
        moment = self._reader.last_moment()
        if moment is None or name not in moment.state.nodes.row_of:
            known = 0 if moment is None else len(moment.state)
            raise InputError(
                f"node {name} is not one of the {known} nodes that {self._path} ends with"
            )
        return explain_node(
            moment.cycle, moment.profiles, name, source=SOURCE, waiting=moment.waiting
        )

    def decision(self, which: str, *, top: int, rows: int) -> DecisionExplanation:
        """The decision of this number, or the latest one about this pod."""
        number = decision_number(which)
        if number is None:
            number = self._latest(which)
        return self._reader.explain(number, top=top, matrix=(0, rows) if rows else None)

    def decisions(self, limit: int) -> DecisionPage:
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
