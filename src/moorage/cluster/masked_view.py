"""Some rows of the cluster, marked instead of listed.

Where most of thousands of rows are meant, listing them costs more than many a question about them;
whoever asks none that needs the list is spared it.
"""

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.model.meta import cached

_FEW = 4


class MaskedView(NodeView):
    """The rows that are marked."""

    def __init__(self, state: ClusterState, marked: Bools, count: int) -> None:
        """`count` rows are marked, one at least."""
        super().__init__(state)
        # Made when somebody asks: `_rows` is found in the class as long as the object has none.
        del self._rows
        self._marked = marked
        self._count = count

    @cached
    def _rows(self) -> Rows:
        return np.flatnonzero(self._marked)

    def __len__(self) -> int:
        return self._count

    @property
    def whole(self) -> NodeView:
        """The view of the whole cluster."""
        return NodeView(self._state)

    def bounds(self, column: Ints) -> tuple[int, int]:
        """The smallest and the largest of the marked rows' values."""
        if self._count * _FEW < len(column):
            return super().bounds(column)
        # A value that counts in place of all that do not.
        values = column.copy()
        np.copyto(values, values[self._marked.argmax()], where=~self._marked)
        return int(values[values.argmin()]), int(values[values.argmax()])
