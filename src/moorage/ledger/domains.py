"""The rows of a label's values, for plugins that score by them: one number tells of many rows.

Owns the rows of one moment; `tracks` keeps what each domain was last given.
"""

from moorage.ledger.held import Array
from moorage.ledger.packing import narrow

_TABLE_BYTES = 150
_FEW = 64


class Domains:
    """The rows of a cluster by their codes of a label."""

    __slots__ = ("are_many", "as_of", "chunk", "codes", "number", "rows", "told_bytes")

    def __init__(self, codes: Array, size: int, as_of: int = -1) -> None:
        """`codes` has one number per row, all of them less than `size`."""
        self.codes = codes
        """Known by what they are: others belong to a label whose values were numbered anew."""
        self.as_of = as_of
        """The generation of the cluster in which they became what they are."""
        self.rows = [narrow((codes == code).nonzero()[0]) for code in range(size)]
        """The rows of each code, which may be none."""
        self.told_bytes = _TABLE_BYTES + 8 * size
        """How much memory a number for each of them takes."""
        self.are_many = size > _FEW
        """Is that much?"""
        self.chunk = -1
        """The chunk that knows them ..."""
        self.number = -1
        """... by this number."""

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return sum(rows.nbytes for rows in self.rows)
