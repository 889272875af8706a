"""What pods on nodes mean to alike pods, kept for every node and patched where pods came or went.

`filtering` and `scoring` work it out from the counts per domain; here it is only carried on. A pod
that comes or goes changes one domain per topology key: if that makes the domain right or wrong, or
changes its weight, the domain's rows are changed. Nodes that come, go or change their labels make
everything be worked out anew. tests/properties/test_kept_company.py compares both.
"""

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import msgspec

from moorage.cluster.columns import Bools, Codes, Ints, Rows
from moorage.cluster.domain_rows import DomainRows
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.view import NodeView
from moorage.framework.scores import Patches
from moorage.model.pod import Pod
from moorage.model.workloads import Namespace
from moorage.plugins.inter_pod_affinity.domains import Counted, matches_all
from moorage.plugins.inter_pod_affinity.filtering import (
    Company,
    RequiredState,
    company_of,
    in_wrong_domains,
    needs_friends,
    wrong_domains,
)
from moorage.plugins.inter_pod_affinity.scoring import (
    NodeWeights,
    Weighted,
    at_all_nodes,
    domain_totals,
    only_label,
    weighted,
)

_PODS = 1 << Aspect.PODS
_MOST_KINDS = 4096
_MOST_KEPT = 64
_MOST_PATCHES = 2048
# Who keeps scores looks at so many single rows before looking at all of them is cheaper.
_FEW_ROWS = 4
# Past this share of changed rows one pass over everything is cheaper than patching.
_REDO_SHARE = 16

Kept = TypeVar("Kept", bound="_KeptRows")


class _Labels:
    """The nodes' topology labels, as they are until some node's change."""

    def __init__(self) -> None:
        self._rows: dict[str, DomainRows] = {}
        self._codes: dict[str, Codes] = {}

    def forget(self, keys: Iterable[str]) -> None:
        """They may have changed, or may be coded otherwise."""
        for key in keys:
            self._rows.pop(key, None)
            self._codes.pop(key, None)

    def code(self, key: str, row: int, nodes: NodeView) -> int:
        """A row's domain."""
        codes = self._codes.get(key)
        if codes is None:
            codes = self._codes[key] = nodes.label(key).codes
        return int(codes[row])

    def rows(self, key: str, code: int, nodes: NodeView) -> Rows:
        """The rows of a domain."""
        found = self._rows.get(key)
        if found is None:
            column = nodes.label(key)
            found = self._rows[key] = DomainRows(column.codes, len(column.vocabulary))
        return found.of(code)


class _KeptRows(ABC):
    """Something about every row that follows from counts per domain."""

    def __init__(self, counted: Sequence[Counted]) -> None:
        self._counted = counted
        self._keys = tuple(dict.fromkeys(one.key for one in counted))
        self._sums: list[DomainSums] = []
        self._as_of = -1

    def refresh(self, nodes: NodeView, labels: _Labels) -> None:
        """Bring it up to date with the cluster."""
        stamps = nodes.stamps
        if self._as_of == stamps.generation:
            return
        sums = [one.find(nodes) for one in self._counted]
        changes = None
        # Counts that were given up meanwhile, and are others now, were not followed.
        if sums == self._sums and self._as_of >= max(
            stamps.latest(Aspect.LABELS), stamps.latest(Aspect.MEMBERSHIP)
        ):
            changes = stamps.log_since(self._as_of)
        self._as_of, self._sums = -1, sums
        if (
            changes is None
            or len(changes) * _REDO_SHARE > len(nodes) + 256
            or not self._can_be_patched()
        ):
            labels.forget(self._keys)
            self._redo(nodes)
        else:
            for row in {row for row, bits in changes if bits & _PODS}:
                for key in self._keys:
                    code = labels.code(key, row, nodes)
                    if code:
                        self._patch(key, code, nodes, labels)
        self._as_of = stamps.generation

    def _can_be_patched(self) -> bool:
        return True

    @abstractmethod
    def _redo(self, nodes: NodeView) -> None:
        """Work it out from all counts."""

    @abstractmethod
    def _patch(self, key: str, code: int, nodes: NodeView, labels: _Labels) -> None:
        """The counts of one domain may have changed."""


class _KeptRefusals(_KeptRows):
    """The rows that required terms refuse, for pods with the same company.

    The pods also agree in whether they match their own affinity terms; `pod` is one of them.
    """

    state: RequiredState
    """What `filter` needs to know."""

    def __init__(self, company: Company, pod: Pod) -> None:
        super().__init__(company.counted)
        self._company = company
        self._pod = pod
        self._attracted_by = frozenset(one.key for one in company.attracting)
        self._patches: Patches = []

    def _can_be_patched(self) -> bool:
        return needs_friends(self.state, self._pod) == self._lonely

    def _redo(self, nodes: NodeView) -> None:
        counts = self._company.counts(self._sums)
        self._existing, self._attracting, self._repelling = counts
        state = self._company.state(counts)
        self._lonely = needs_friends(state, self._pod)
        self._wrong = wrong_domains(state, self._pod, nodes)
        self._patches = []
        self._tell(state, in_wrong_domains(self._wrong, nodes))

    def _tell(self, state: RequiredState, refused: Bools) -> None:
        """Whoever is given rows may keep them: others are another array."""
        refused.flags.writeable = False
        self._refused = refused
        self.state = msgspec.structs.replace(state, refused=refused, patches=self._patches)

    def _patch(self, key: str, code: int, nodes: NodeView, labels: _Labels) -> None:
        wrong = (
            self._existing.at(key, code) > 0
            or self._repelling.at(key, code) > 0
            or (self._lonely and key in self._attracted_by and not self._attracting.at(key, code))
        )
        table = self._wrong[key]
        if table[code] != wrong:
            table[code] = wrong
            rows = labels.rows(key, code, nodes)
            refused = self._refused.copy()
            refused[rows] = wrong or in_wrong_domains(self._wrong, nodes.take(rows))
            self._patches = _with_patch(self._patches, rows, refused)
            self._tell(self.state, refused)


class _KeptScores(_KeptRows):
    """The summed weights of every row, for pods to which the same pods matter as much."""

    def __init__(self, parts: Sequence[Weighted]) -> None:
        super().__init__([one for one, _ in parts])
        self._parts = parts
        self._patches: Patches = []

    def weights(self) -> NodeWeights | None:
        """None unless there is anybody who matters, on a node that is in a domain."""
        if not any(sums.inside for sums in self._sums):
            return None
        if self._label is None:
            return NodeWeights(self._raw, patches=self._patches)
        return NodeWeights(self._raw, self._totals[self._label], self._codes, self._labelled)

    def _redo(self, nodes: NodeView) -> None:
        self._label = only_label(self._keys, nodes)
        if self._label is not None:
            self._codes = nodes.label(self._label).codes
            self._labelled = nodes.stamps.latest(Aspect.LABELS)
        self._patches = []
        totals = domain_totals(self._parts, self._sums)
        self._totals = {key: totals[key] for key in self._keys}
        self._raw = at_all_nodes(totals, nodes)
        self._weighted: dict[str, list[tuple[DomainSums, int]]] = {key: [] for key in self._keys}
        for (one, weight), sums in zip(self._parts, self._sums, strict=True):
            self._weighted[one.key].append((sums, weight))

    def _patch(self, key: str, code: int, nodes: NodeView, labels: _Labels) -> None:
        table = self._totals[key]
        before = int(table[code])
        now = sum(sums.at(code) * weight for sums, weight in self._weighted[key])
        if now != before:
            table[code] = now
            rows = labels.rows(key, code, nodes)
            self._raw[rows] += now - before
            if self._label is None:
                self._patches = _with_patch(self._patches, rows, self._raw)


def _with_patch(patches: Patches, rows: Rows, values: Ints | Bools) -> Patches:
    """The list with the new values of some rows; another one if it would be long."""
    if len(rows) > _FEW_ROWS or len(patches) >= _MOST_PATCHES:
        return []
    for row in rows.tolist():
        patches += (row, int(values[row]))
    return patches


class _Kind:
    """What matters to pods that are alike in their terms, labels and namespace.

    Different kinds may share what is kept: replicas of different sets that avoid the same pods.
    """

    __slots__ = ("company", "parts", "pod", "refusals", "scores")

    def __init__(self, pod: Pod, nodes: NodeView, hard_weight: int) -> None:
        self.pod = pod
        self.company = company = company_of(pod, nodes)
        self.parts = weighted(pod, nodes, hard_weight)
        self.refusals: Hashable = (
            pod.namespace,
            company.affinity,
            company.anti_affinity,
            tuple(one.name for one in company.existing),
            matches_all(company.affinity, pod),
        )
        self.scores: Hashable = tuple((one.name, weight) for one, weight in self.parts)


class KeptCompany:
    """Answers for the whole cluster as it is, by kinds of pods."""

    def __init__(self, hard_weight: int) -> None:
        self._hard_weight = hard_weight
        self._stamps: Stamps | None = None
        self._versions = (-1, -1)
        self._kinds: dict[Hashable, _Kind] = {}
        self._refusals: OrderedDict[Hashable, _KeptRefusals] = OrderedDict()
        self._scores: OrderedDict[Hashable, _KeptScores] = OrderedDict()
        self._labels = _Labels()

    def state(self, pod: Pod, nodes: NodeView) -> RequiredState | None:
        """As `filtering.count` has it; None if nothing can matter to the pod."""
        kind = self._kind(pod, nodes)
        if not kind.company.counted:
            return None
        kept = self._refusals.get(kind.refusals)
        if kept is None:
            kept = _KeptRefusals(kind.company, kind.pod)
        _use(self._refusals, kind.refusals, kept)
        kept.refresh(nodes, self._labels)
        return kept.state

    def weights(self, pod: Pod, nodes: NodeView) -> NodeWeights | None:
        """As `scoring.weigh` has them."""
        kind = self._kind(pod, nodes)
        if not kind.parts:
            return None
        kept = self._scores.get(kind.scores)
        if kept is None:
            kept = _KeptScores(kind.parts)
        _use(self._scores, kind.scores, kept)
        kept.refresh(nodes, self._labels)
        return kept.weights()

    def _kind(self, pod: Pod, nodes: NodeView) -> _Kind:
        if nodes.stamps is not self._stamps:  # another cluster
            self._stamps = nodes.stamps
            self._versions = (-1, -1)
            self._refusals.clear()
            self._scores.clear()
            self._labels = _Labels()
        versions = (nodes.listers.of(Namespace).generation, nodes.terms_version)
        if versions != self._versions or len(self._kinds) >= _MOST_KINDS:
            self._kinds.clear()
            self._versions = versions
        key = (pod.affinity_terms, pod.namespace, pod.label_set)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(pod, nodes, self._hard_weight)
        return kind


def _use(kept: OrderedDict[Hashable, Kept], key: Hashable, one: Kept) -> None:
    """Note that something kept is in use, and give up what was not for long."""
    kept[key] = one
    kept.move_to_end(key)
    if len(kept) > _MOST_KEPT:
        kept.popitem(last=False)
