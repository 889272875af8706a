"""The long parts of a track's changes: sets of rows, values of many rows, tables by domain.

Owns those of one chunk, which changes refer to by number, and how much memory they take.
"""

from moorage.framework.scores import Scale
from moorage.ledger.domains import Domains
from moorage.ledger.held import Array
from moorage.ledger.records import SCALE

_BULK_BYTES = 250
_SET_BYTES = 250


class Bulks:
    """What the changes of a chunk refer to."""

    __slots__ = (
        "_scale_numbers",
        "_set_numbers",
        "bytes",
        "chunk",
        "heads",
        "sets",
        "table_heads",
        "tables",
        "values",
    )

    def __init__(self) -> None:
        self.chunk = -1
        """The number of the chunk."""
        self.bytes = 0
        """How much memory all of it takes."""
        self.sets: list[Array] = []
        """Rows that changed together."""
        self.values: list[tuple[int, Array | Scale]] = []
        """Values of the rows of a set, or of all rows (`ALL`), or how to make them (`SCALE`)."""
        self.heads: list[list[int]] = []
        """The sets of each label's domains."""
        self.table_heads: list[int] = []
        """The head of each table ..."""
        self.tables: list[bytes] = []
        """... and a value for each of its sets."""
        self._set_numbers: dict[tuple[int, int], tuple[bytes, int]] = {}
        """The sets by their first row and size."""
        self._scale_numbers: dict[Scale, int] = {}

    def set_of(self, rows: Array) -> int:
        """The number of a set of rows; often it is one that changed before."""
        key, data = (int(rows[0]) if len(rows) else -1, len(rows)), rows.tobytes()
        known = self._set_numbers.get(key)
        if known is None or known[0] != data:
            known = self._set_numbers[key] = (data, len(self.sets))
            self.sets.append(rows)
            self.bytes += _SET_BYTES + rows.nbytes + len(data)
        return known[1]

    def add(self, number: int, values: Array) -> int:
        """The number of these values, of the rows of a set or of all rows."""
        self.values.append((number, values))
        self.bytes += _BULK_BYTES + values.nbytes
        return len(self.values) - 1

    def scale(self, scale: Scale) -> int:
        """The number of a way to make scores of others."""
        number = self._scale_numbers.get(scale)
        if number is None:
            number = self._scale_numbers[scale] = len(self.values)
            self.values.append((SCALE, scale))
            self.bytes += _BULK_BYTES
        return number

    def table(self, domains: Domains, told: bytes) -> int:
        """The number of a table with a value for each domain."""
        if domains.chunk != self.chunk:
            domains.chunk, domains.number = self.chunk, len(self.heads)
            self.heads.append([self.set_of(rows) for rows in domains.rows])
        self.tables.append(told)
        self.table_heads.append(domains.number)
        self.bytes += domains.told_bytes
        return len(self.tables) - 1
