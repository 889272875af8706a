"""What the extension points of an attempt found: PreFilter, Filter and Score, as values.

Verdicts stay bits and scores stay columns; they become statuses and numbers of single nodes only
when somebody asks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.framework.status import Code, Status, Verdicts, worst


class PreFiltered(msgspec.Struct, frozen=True):
    """What PreFilter plugins said of a pod."""

    states: Mapping[str, Any] = {}
    skipped: frozenset[str] = frozenset()
    node_names: frozenset[str] | None = None
    """The only nodes worth looking at, or None for all."""
    named: Mapping[str, frozenset[str]] = {}
    """The plugins that named such nodes, and which each of them named."""
    rejections: tuple[Status, ...] = ()
    """What plugins have against the pod on any node."""
    ran: tuple[str, ...] = ()
    """The plugins that were asked; a rejection may end the round early."""

    @property
    def rejection(self) -> Status | None:
        """The rejection that counts, if there is one."""
        return self.rejections[-1] if self.rejections else None

    @property
    def not_filtering(self) -> frozenset[str]:
        """The plugins whose filter is not asked: PreFilter skipped, or has no state to go by."""
        if not self.rejections:
            return self.skipped
        stateless = {one.plugin for one in self.rejections} - self.states.keys()
        return self.skipped | stateless

    @property
    def absent_status(self) -> Status | None:
        """The status of nodes that were not looked at, if some were not."""
        if self.rejection is not None:
            return self.rejection
        if self.node_names is not None:
            names = " ".join(sorted(self.named))
            return Status(Code.UNRESOLVABLE, (f"node(s) didn't satisfy plugin(s) [{names}]",))
        return None


class FilterOutcome:
    """Every node's verdict: kept as the plugins' bits, turned into statuses only when asked."""

    def __init__(self, considered: Bools) -> None:
        self.considered = considered
        self.rejected: Bools = np.zeros(len(considered), np.bool_)
        self.verdicts: list[tuple[str, Verdicts]] = []
        self.overruled: dict[int, Status] = {}
        """Rows that fail once the pods nominated to them are counted in."""
        self.refused: dict[int, Status] = {}
        """Rows that extenders say they refuse; goes before all that plugins said."""
        self.unknown_nodes: dict[str, Status] = {}
        """The same for nodes that do not exist: users are shown what an extender says of them."""
        self.thinned = False
        """Did extenders take away rows that the plugins had left?"""

    @property
    def accepted(self) -> Bools:
        """Which rows can take the pod, as a mask ..."""
        return self.considered & ~self.rejected

    @property
    def feasible(self) -> Rows:
        """... and as a list."""
        return self.accepted.nonzero()[0]

    @property
    def any_feasible(self) -> bool:
        return bool(self.accepted.any())

    def accepts(self, row: int) -> bool:
        return bool(self.considered[row] and not self.rejected[row])

    def asked(self) -> Iterator[tuple[str, int]]:
        """Each plugin with the number of nodes that none before it had rejected.

        Upstream asks no further about a node once it is rejected, and this is what it counts.
        """
        left = self.considered
        count = int(np.count_nonzero(left))
        for name, verdicts in self.verdicts:
            yield name, count
            if verdicts.bits.any():
                left = left & ~verdicts.rejected
                count = int(np.count_nonzero(left))

    def thin_out(self, taken: Iterable[int]) -> None:
        """Extenders took rows away; one without a reason counts as never looked at."""
        self.thinned = True
        for row in taken:
            if row in self.refused:
                self.rejected[row] = True
            else:
                self.considered[row] = False

    def status(self, row: int) -> Status | None:
        """Why a row was rejected: the first plugin's answer. None: it was not."""
        overruled = self.refused.get(row) or self.overruled.get(row)
        if overruled is not None:
            return overruled
        return first_rejection(self.verdicts, row)


def first_rejection(verdicts: Sequence[tuple[str, Verdicts]], row: int) -> Status | None:
    """The first plugin that rejects a row, with all of its reasons."""
    for name, answer in verdicts:
        if answer.bits[row]:
            reasons = answer.reasons_of(row)
            return Status(worst(reasons), tuple(reason.text for reason in reasons), name)
    return None


def first_rejections(
    verdicts: Iterable[tuple[str, Verdicts]], wanted: Bools
) -> Iterator[tuple[Rows, Status]]:
    """The same for all wanted rows at once.

    Rows are many and reasons few: those rejected by one plugin for the same reasons share a status.
    """
    undecided = wanted.copy()
    for name, answer in verdicts:
        rejected = np.flatnonzero(undecided & answer.rejected)
        if not len(rejected):
            continue
        undecided[rejected] = False
        bits = answer.bits[rejected]
        for pattern in np.unique(bits):
            alike = rejected[bits == pattern]
            status = first_rejection([(name, answer)], int(alike[0]))
            assert status is not None, "some bit is set in a row that is rejected"
            yield alike, status


class PluginScores(msgspec.Struct, frozen=True):
    """One plugin's part in the totals, over the rows that were scored."""

    plugin: str
    raw: Ints
    normalized: Ints
    weight: int = 1

    @property
    def weighted(self) -> Ints:
        """What it adds to the totals."""
        return self.normalized * self.weight


class Scores(msgspec.Struct, frozen=True):
    """The totals over the rows that were scored, and how they came about."""

    totals: Ints
    parts: tuple[PluginScores, ...]
    skipped: frozenset[str]
