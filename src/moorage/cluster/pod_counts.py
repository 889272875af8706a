"""Pods matching a question, counted per node and kept up to date pod by pod.

Pods with the same namespace and labels are one *pod set*. A question (a label selector in a
namespace, say) is asked once per set; after that every pod that comes or goes changes one element
of each column its set belongs to. Questions are values, so equal questions share a column.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.coded import CodedStore
from moorage.cluster.columns import Column, Ints, RowSpace
from moorage.cluster.domain_sums import DomainSums
from moorage.cluster.pod_table import PodTable
from moorage.cluster.stamps import Stamps
from moorage.model.labels import Labels
from moorage.model.pod import Pod

_MOST_COLUMNS = 1024


class PodSet(msgspec.Struct, frozen=True, cache_hash=True):
    """What pods of one set have in common."""

    namespace: str
    label_set: tuple[tuple[str, str], ...]
    terminating: bool

    @property
    def labels(self) -> Labels:
        """The labels as a mapping."""
        return dict(self.label_set)


PodTest = Callable[[PodSet], bool]


class _Count:
    """One question: its column and the sets that answer yes."""

    __slots__ = ("column", "members", "sums", "test")

    def __init__(self, column: Column[np.int64], test: PodTest) -> None:
        self.column = column
        self.test = test
        self.members: set[int] = set()
        self.sums: dict[str, DomainSums] = {}
        """By label key, for the labels that somebody asked for."""

    def add(self, row: int, change: int) -> None:
        """Count pods in or out."""
        self.column.cells[row] += change
        for sums in self.sums.values():
            sums.add(row, change)


class PodCounts:
    """Count columns by question; the least recently asked is dropped when there are too many."""

    def __init__(self, space: RowSpace, pods: PodTable) -> None:
        self._space = space
        self._pods = pods
        self._codes: dict[PodSet, int] = {}
        self._sets: list[PodSet | None] = []
        self._free: list[int] = []
        self._population: list[int] = []
        self._counts: OrderedDict[Hashable, _Count] = OrderedDict()
        self._of_set: list[list[_Count]] = []

    def enter(self, pod: Pod) -> int:
        """The code of a pod's set; the set is remembered while it has pods."""
        meta = pod.metadata
        pod_set = PodSet(meta.namespace, pod.label_set, meta.deletion_timestamp is not None)
        code = self._codes.get(pod_set)
        if code is None:
            code = self._new_set(pod_set)
        self._population[code] += 1
        return code

    def count(self, code: int, row: int, sign: int) -> None:
        """A pod of a set came to a row, or left it."""
        for count in self._of_set[code]:
            count.add(row, sign)
        if sign < 0:
            self._population[code] -= 1
            if not self._population[code]:
                self._forget(code)

    def code_of(self, pod: Pod) -> int:
        """The code of the set of a pod that is on a node."""
        return self._codes[PodSet(pod.namespace, pod.label_set, pod.terminating)]

    def matching(self, question: Hashable, test: PodTest) -> Ints:
        """Per row, the pods whose set passes `test`; `question` names the test by value."""
        return self._find(question, test).column.values

    def per_domain(
        self,
        question: Hashable,
        test: PodTest,
        key: str,
        store: CodedStore[str | None],
        stamps: Stamps,
    ) -> DomainSums:
        """The same summed up over the values of a label."""
        count = self._find(question, test)
        sums = count.sums.get(key)
        if sums is None or not sums.is_over(store):
            for other in [other for other, kept in count.sums.items() if kept.dropped]:
                del count.sums[other]
            sums = count.sums[key] = DomainSums(count.column, store, stamps)
        return sums

    def _find(self, question: Hashable, test: PodTest) -> _Count:
        count = self._counts.get(question)
        if count is None:
            return self._new_count(question, test)
        self._counts.move_to_end(question)
        return count

    def _new_set(self, pod_set: PodSet) -> int:
        matching = [count for count in self._counts.values() if count.test(pod_set)]
        if self._free:
            code = self._free.pop()
            self._sets[code], self._population[code] = pod_set, 0
            self._of_set[code] = matching
        else:
            code = len(self._sets)
            self._sets.append(pod_set)
            self._population.append(0)
            self._of_set.append(matching)
        self._codes[pod_set] = code
        for count in matching:
            count.members.add(code)
        return code

    def _forget(self, code: int) -> None:
        pod_set = self._sets[code]
        assert pod_set is not None, "a set is forgotten once, when its last pod leaves"
        del self._codes[pod_set]
        for count in self._of_set[code]:
            count.members.discard(code)
        self._sets[code] = None
        self._of_set[code] = []
        self._free.append(code)

    def _new_count(self, question: Hashable, test: PodTest) -> _Count:
        if len(self._counts) >= _MOST_COLUMNS:
            self._drop(self._counts.popitem(last=False)[1])
        count = _Count(self._space.column(np.int64), test)
        count.members = {code for code, pod_set in self._known_sets() if test(pod_set)}
        wanted: NDArray[np.bool_] = np.zeros(max(1, len(self._sets)), np.bool_)
        for code in count.members:
            wanted[code] = True
            self._of_set[code].append(count)
        size = self._space.size
        count.column.data[:size] = self._pods.count_sets(wanted, size)
        self._counts[question] = count
        return count

    def _drop(self, count: _Count) -> None:
        for code in count.members:
            self._of_set[code].remove(count)
        self._space.drop(count.column)

    def _known_sets(self) -> Iterable[tuple[int, PodSet]]:
        return ((code, s) for code, s in enumerate(self._sets) if s is not None)
