"""The nodes as rows: names, capacity, usage, taints, labels, declared features.

Resources are stored one column per resource name, so that `requested("cpu")` is one contiguous
array. A label key gets a column when a selector first mentions it, and loses it when many others
were asked for since.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping

import numpy as np

from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import Column, Ints, RowSpace
from moorage.model.labels import Labels
from moorage.model.node import Node
from moorage.model.taints import Taint

TaintSet = tuple[Taint, ...]
Features = frozenset[str]

_MOST_LABELS = 256
_INT64 = 2**63
_WRAP = 2**64


class _ByResource(dict[str, Column[np.int64]]):
    """Columns by resource; there are zeros for a resource nobody mentioned."""

    __slots__ = ("_zeros",)

    def __init__(self, zeros: Column[np.int64]) -> None:
        super().__init__()
        self._zeros = zeros

    def __missing__(self, resource: str) -> Column[np.int64]:
        return self._zeros


MOST_UNUSED = 64
"""With so many columns, and whenever they have doubled since, those of all zeros are dropped."""


class ResourceColumns:
    """One int64 column per resource name, made when a node or a pod on one first has some."""

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self.columns = _ByResource(space.column(np.int64))
        """To be read only; `columns[resource].cells[row]` is the quick way to one amount."""
        self._sweep_at = MOST_UNUSED

    def values(self, resource: str) -> Ints:
        """The amounts of all rows, read-only; zeros for a resource nobody mentioned."""
        return self.columns[resource].values

    def items(self) -> Iterator[tuple[str, Ints]]:
        """Every resource with its amounts."""
        return ((name, column.values) for name, column in self.columns.items())

    def set(self, row: int, amounts: Mapping[str, int]) -> None:
        """Write a row; resources not named become 0."""
        for name in self.columns.keys() | amounts.keys():
            self._column(name).cells[row] = amounts.get(name, 0)

    def add(self, row: int, amounts: Mapping[str, int], sign: int) -> None:
        """Add to (or take from) a row; sums wrap around, as Go's do."""
        for name, value in amounts.items():
            cells = (self.columns.get(name) or self._column(name)).cells
            total = cells[row] + sign * value
            try:
                cells[row] = total
            except ValueError:  # it takes more than 64 bits
                cells[row] = (total + _INT64) % _WRAP - _INT64

    def _column(self, resource: str) -> Column[np.int64]:
        column = self.columns.get(resource)
        if column is None:
            if len(self.columns) >= self._sweep_at:
                self._drop_unused()
            column = self.columns[resource] = self._space.column(np.int64)
        return column

    def _drop_unused(self) -> None:
        """Drop columns of all zeros, so that made-up resource names cannot fill the memory."""
        for name in [name for name, column in self.columns.items() if not column.values.any()]:
            self._space.drop(self.columns.pop(name))
        self._sweep_at = max(MOST_UNUSED, 2 * len(self.columns))


EMPTY = 32_767
"""The emptiness of a node without pods; every pod takes one away, but the last is never taken."""


class NodeTable:
    """Everything known of nodes as such; pods on them are counted here but live elsewhere."""

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self.nodes: list[Node] = []
        self.row_of: dict[str, int] = {}
        self.allocatable = ResourceColumns(space)
        self.requested = ResourceColumns(space)
        # The same with defaults for containers without a request; only cpu and memory have any.
        self.requested_with_defaults = ResourceColumns(space)
        self.pod_count: Column[np.int64] = space.column(np.int64)
        # The same the other way round, in a narrow type, for comparing all nodes at once.
        self.emptiness: Column[np.int16] = space.column(np.int16, EMPTY)
        self.unschedulable: Column[np.bool_] = space.column(np.bool_, False)
        self.taints: CodedStore[TaintSet] = CodedStore(space, ())
        self.features: CodedStore[Features] = CodedStore(space, frozenset())
        self._labels: OrderedDict[str, CodedStore[str | None]] = OrderedDict()
        self._nodes_with: Counter[str] = Counter()
        """How many nodes have a label, by its key."""
        self._no_label: CodedStore[str | None] = CodedStore(space, None)
        """Stands for every label that no node has."""

    def append(self, node: Node) -> int:
        """A new row for a new node."""
        row = self._space.append()
        self.nodes.append(node)
        self.row_of[node.name] = row
        self._nodes_with.update(node.labels.keys())
        self.write(row, node)
        return row

    def remove(self, row: int) -> int:
        """Give up a row; returns the former row of the node that moved into it."""
        del self.row_of[self.nodes[row].name]
        self._count_labels(self.nodes[row].labels, {})
        moved = self._space.remove(row)
        last = self.nodes.pop()
        if moved != row:
            self.nodes[row] = last
            self.row_of[last.name] = row
        self._compact()
        return moved

    def write(self, row: int, node: Node) -> None:
        """Write what the node object says; usage is not touched."""
        self._count_labels(self.nodes[row].labels, node.labels)
        self.nodes[row] = node
        self.allocatable.set(row, node.allocatable)
        self.unschedulable.data[row] = node.spec.unschedulable
        self.taints.set(row, node.spec.taints)
        self.features.set(row, frozenset(node.status.declared_features))
        for key, store in self._labels.items():
            store.set(row, node.labels.get(key))
        self._compact()

    def count_pod(self, row: int, sign: int) -> None:
        """A pod more or less."""
        cells = self.pod_count.cells
        cells[row] = count = cells[row] + sign
        self.emptiness.cells[row] = EMPTY - count if count < EMPTY else 1

    def label(self, key: str) -> CodedStore[str | None]:
        """The column of a label key, filled from all nodes when it is first asked for."""
        store = self._labels.get(key)
        if store is None:
            if key not in self._nodes_with:
                return self._no_label
            store = self._labels[key] = CodedStore(self._space, None)
            for row, node in enumerate(self.nodes):
                store.set(row, node.labels.get(key))
        else:
            self._labels.move_to_end(key)
        return store

    def _count_labels(self, old: Labels, new: Labels) -> None:
        """A node's labels changed."""
        if old is new:
            return
        counts = self._nodes_with
        counts.update(new.keys())
        for key in old:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def trim_labels(self) -> None:
        """Drop label columns beyond the most recently asked for.

        Only between attempts: what plugins work out within one counts by the columns' codes.
        """
        while len(self._labels) > _MOST_LABELS:
            self._labels.popitem(last=False)[1].drop()

    def _compact(self) -> None:
        self.taints.compact()
        self.features.compact()
        for store in self._labels.values():
            store.compact()
