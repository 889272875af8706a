"""Pods that match a query, counted per node and kept up to date pod by pod.

Pods with the same namespace and labels are one *pod set*. A query is tried once per set that can
match it; after that every pod that comes or goes changes the counts that its set belongs to. Sets
and queries find one another by label pairs, so neither is tried against all the others.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from moorage.cluster.columns import Ints, RowSpace
from moorage.cluster.pod_query import LabelPair, PodQuery, PodSet, pod_set_of
from moorage.cluster.row_counts import DomainSums, LabelDomains, RowCounts
from moorage.model.labels import Labels
from moorage.model.pod import Pod

_FEWEST_QUERIES = 256

T = TypeVar("T")


class _Query:
    """A query that somebody asked: its counts, and the sets that match."""

    __slots__ = ("counts", "members", "pairs", "query")

    def __init__(self, query: PodQuery, counts: RowCounts, pairs: Sequence[LabelPair]) -> None:
        self.query = query
        self.counts = counts
        self.pairs = pairs
        """What matching sets are found by; none: by nothing."""
        self.members: set[_Members] = set()


class _Members:
    """The pods of a set: where they are, and in which queries they count."""

    __slots__ = ("counts", "labels", "pod_set", "pods", "queries")

    def __init__(self, pod_set: PodSet, labels: Labels, counts: RowCounts) -> None:
        self.pod_set = pod_set
        self.labels = labels
        """Of the first pod that came; those of the others are equal."""
        self.counts = counts
        self.pods = 0
        self.queries: list[_Query] = []

    def match(self, query: PodQuery) -> bool:
        """Do these pods count?"""
        pod_set = self.pod_set
        return query.matches_labels(pod_set.namespace, self.labels, pod_set.terminating)


class PodCounts:
    """Counts by query.

    A query is forgotten when it was not asked for long and there are more queries than pod sets to
    ask about: what is remembered is bounded by what is in the cluster.
    """

    def __init__(self, space: RowSpace) -> None:
        self._space = space
        self._sets: dict[PodSet, _Members] = {}
        self._sets_by_pair: dict[LabelPair, set[_Members]] = {}
        self._queries: OrderedDict[PodQuery, _Query] = OrderedDict()
        self._queries_by_pair: dict[LabelPair, set[_Query]] = {}
        self._queries_anywhere: set[_Query] = set()

    def count(self, pod: Pod, row: int, sign: int) -> None:
        """A pod came to a row, or left it."""
        pod_set = pod_set_of(pod)
        members = self._sets.get(pod_set)
        if members is None:
            members = self._new_set(pod_set, pod.labels)
        members.pods += sign
        members.counts.add(row, sign)
        for query in members.queries:
            query.counts.add(row, sign)
        if not members.pods:
            self._forget(members)

    def move_row(self, moved: int, row: int, pods: Iterable[Pod]) -> None:
        """The row of a node and its pods has another number now."""
        sets = {pod_set_of(pod) for pod in pods}
        members = [self._sets[pod_set] for pod_set in sets]
        queries = {query for one in members for query in one.queries}
        for counts in (*(one.counts for one in members), *(one.counts for one in queries)):
            counts.move_row(moved, row)

    def matching(self, query: PodQuery) -> Ints:
        """Per row, the pods that match."""
        return self._find(query).counts.values

    def per_domain(self, query: PodQuery, domains: LabelDomains) -> DomainSums:
        """The same summed up over the values of a label."""
        return self._find(query).counts.per_domain(domains)

    def _find(self, query: PodQuery) -> _Query:
        found = self._queries.get(query)
        if found is None:
            return self._new_query(query)
        self._queries.move_to_end(query)
        return found

    def _new_set(self, pod_set: PodSet, labels: Labels) -> _Members:
        members = self._sets[pod_set] = _Members(pod_set, labels, RowCounts(self._space))
        may_match = [*self._queries_anywhere]
        for pair in pod_set.pairs:
            self._sets_by_pair.setdefault(pair, set()).add(members)
            may_match += self._queries_by_pair.get(pair, ())
        for query in may_match:
            if members.match(query.query):
                members.queries.append(query)
                query.members.add(members)
        return members

    def _forget(self, members: _Members) -> None:
        del self._sets[members.pod_set]
        members.counts.drop()
        for query in members.queries:
            query.members.discard(members)
        for pair in members.pod_set.pairs:
            _take_out(self._sets_by_pair, pair, members)

    def _new_query(self, query: PodQuery) -> _Query:
        while len(self._queries) > max(_FEWEST_QUERIES, 2 * len(self._sets)):
            self._drop(self._queries.popitem(last=False)[1])
        pairs = min(query.alternatives, key=self._sets_with, default=None)
        found = _Query(query, RowCounts(self._space), pairs or ())
        if pairs is None:
            candidates = set(self._sets.values())
            self._queries_anywhere.add(found)
        else:
            candidates = set().union(*(self._sets_by_pair.get(pair, ()) for pair in pairs))
            for pair in pairs:
                self._queries_by_pair.setdefault(pair, set()).add(found)
        for members in candidates:
            if members.match(query):
                members.queries.append(found)
                found.members.add(members)
                found.counts.add_all(members.counts)
        self._queries[query] = found
        return found

    def _sets_with(self, pairs: Sequence[LabelPair]) -> int:
        return sum(len(self._sets_by_pair.get(pair, ())) for pair in pairs)

    def _drop(self, query: _Query) -> None:
        query.counts.drop()
        for members in query.members:
            members.queries.remove(query)
        self._queries_anywhere.discard(query)
        for pair in query.pairs:
            _take_out(self._queries_by_pair, pair, query)


def _take_out(index: dict[LabelPair, set[T]], pair: LabelPair, one: T) -> None:
    found = index[pair]
    found.discard(one)
    if not found:
        del index[pair]
