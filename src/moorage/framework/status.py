"""Verdicts on pods and nodes, in upstream's words.

`Code` and `Status` answer for a whole pod; `Reason` and `Verdicts` answer for every node at once,
as a bit set per row. An unschedulable pod is a value, never an exception.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Bools, Rows


class Code(Enum):
    """How an extension point answered; the values are Go's names for them."""

    SUCCESS = "Success"
    ERROR = "Error"
    UNSCHEDULABLE = "Unschedulable"
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    WAIT = "Wait"
    SKIP = "Skip"
    PENDING = "Pending"

    @property
    def rejected(self) -> bool:
        """Does it say no (rather than yes, wait, or that something broke)?"""
        return self in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)


class Status(msgspec.Struct, frozen=True):
    """An answer about a pod: what, why, and which plugin said so."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def message(self) -> str:
        """All reasons in one line."""
        return ", ".join(self.reasons)


class Skip(Enum):
    """The answer of a plugin that has nothing to say about a pod."""

    SKIP = "skip"


SKIP = Skip.SKIP


class Reason(msgspec.Struct, frozen=True):
    """Why a node is refused. UNRESOLVABLE: evicting pods from the node would not help."""

    text: str
    code: Code = Code.UNSCHEDULABLE


FURTHER = "... and further reasons"
# One answer tells so many reasons apart; the others are told as FURTHER, one reason for each code.
_MOST_REASONS = 60

_WIDTHS: tuple[tuple[int, type[np.unsignedinteger]], ...] = (
    (8, np.uint8),
    (16, np.uint16),
    (32, np.uint32),
    (64, np.uint64),
)


class Verdicts:
    """Bit i of a row is set: the row is refused for `reasons[i]`. No bit: it is accepted.

    Reasons named at construction keep their bit in every answer; others are appended as they occur,
    and lose their text (never their code) if too many rows have too many different ones.
    """

    __slots__ = ("bits", "reasons")

    def __init__(self, size: int, reasons: Sequence[Reason] = ()) -> None:
        self.reasons = list(reasons)
        self.bits: NDArray[np.unsignedinteger] = np.zeros(size, _width(len(self.reasons)))

    def __len__(self) -> int:
        return len(self.bits)

    def reject(self, where: Bools | int, reason: Reason) -> "Verdicts":
        """Refuse some rows (a mask, or one row number) for a reason."""
        bit = self._bit(reason)
        mask = self.bits.dtype.type(1 << bit)
        if isinstance(where, np.ndarray):
            self.bits |= where * mask
        else:
            self.bits[where] |= mask
        return self

    @property
    def rejected(self) -> Bools:
        """The rows refused for any reason."""
        rejected: Bools = self.bits != 0
        return rejected

    def reasons_of(self, row: int) -> list[Reason]:
        """All reasons of one row, in the plugin's order."""
        bits = int(self.bits[row])
        return [reason for i, reason in enumerate(self.reasons) if bits >> i & 1]

    def by_reason(self) -> Iterator[tuple[Reason, Bools]]:
        """The reasons that some rows have, each with its rows."""
        unit = self.bits.dtype.type
        for bit, reason in enumerate(self.reasons):
            rows: Bools = (self.bits & unit(1 << bit)) != 0
            if rows.any():
                yield reason, rows

    def with_code(self, codes: Iterable[Code]) -> Bools:
        """The rows refused for a reason with one of the codes."""
        wanted = set(codes)
        mask = sum(1 << i for i, reason in enumerate(self.reasons) if reason.code in wanted)
        refused: Bools = (self.bits & self.bits.dtype.type(mask)) != 0
        return refused

    def splice(self, rows: Rows, newer: "Verdicts") -> None:
        """Replace some rows by another answer of the same plugin."""
        if newer.reasons == self.reasons[: len(newer.reasons)]:
            self.bits[rows] = newer.bits
            return
        self.bits[rows] = 0
        if len(self.reasons) >= _MOST_REASONS:
            self._drop_unused()
        for i, reason in enumerate(newer.reasons):
            refused = rows[(newer.bits >> newer.bits.dtype.type(i)) & newer.bits.dtype.type(1) != 0]
            bit = self._bit(reason)
            self.bits[refused] |= self.bits.dtype.type(1 << bit)

    def _bit(self, reason: Reason) -> int:
        if reason not in self.reasons and len(self.reasons) >= _MOST_REASONS:
            further = Reason(FURTHER, reason.code)
            if further not in self.reasons:
                self._drop_unused()
            if len(self.reasons) >= _MOST_REASONS:
                reason = further
        if reason not in self.reasons:
            if len(self.reasons) == self.bits.dtype.itemsize * 8:
                self.bits = self.bits.astype(_width(len(self.reasons) + 1))
            self.reasons.append(reason)
        return self.reasons.index(reason)

    def _drop_unused(self) -> None:
        """Make room: an answer kept for long may have seen many reasons that no row has now."""
        used = dict(self.by_reason())
        self.reasons = list(used)
        self.bits = np.zeros(len(self.bits), _width(len(used)))
        for reason, rows in used.items():
            self.reject(rows, reason)


def _width(reasons: int) -> type[np.unsignedinteger]:
    for bits, dtype in _WIDTHS:
        if reasons <= bits:
            return dtype
    raise ValueError(f"a plugin can tell at most {_WIDTHS[-1][0]} reasons apart, not {reasons}")


def worst(reasons: Iterable[Reason]) -> Code:
    """The code of a node refused for these reasons: an error beats unresolvable beats the rest."""
    codes = {reason.code for reason in reasons}
    for code in (Code.ERROR, Code.UNRESOLVABLE, Code.PENDING):
        if code in codes:
            return code
    return Code.UNSCHEDULABLE
