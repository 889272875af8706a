"""NodeView: what plugins see of the cluster.

One type covers the whole cluster, some of its rows (`take`) and rows as they would be if pods came
or went (`what_if`), so a plugin is written once and serves the cycle, nominated pods and
preemption alike. Arrays are read-only; a view is valid until the state changes.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.attached_volumes import AttachedVolumes
from moorage.cluster.coded import CodedColumn, LabelColumn
from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.domain_sums import DomainSums
from moorage.cluster.host_ports import addresses_of, conflict
from moorage.cluster.images import ImageState
from moorage.cluster.listers import Listers
from moorage.cluster.moved_pods import Measure, MovedPods
from moorage.cluster.node_table import Features, TaintSet
from moorage.cluster.pod_counts import PodTest
from moorage.cluster.pod_table import LesserPods
from moorage.cluster.pod_terms import TermEntry
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.state import ClusterState
from moorage.model.labels import Labels
from moorage.model.node import Node
from moorage.model.node_selector import CompiledNodeSelector, NodeTerm
from moorage.model.pod import HostPort, Pod, RequiredNodes
from moorage.model.resources import CPU, MEMORY

T = TypeVar("T", bound=np.generic)

PodsByRow = Mapping[int, Sequence[Pod]]

_WITH_DEFAULTS: Mapping[str, Measure] = {
    CPU: attrgetter("occupied_cpu"),
    MEMORY: attrgetter("occupied_memory"),
}


class NodeRow:
    """One node as an object, for plugins written as a loop; made on the fly, never kept."""

    __slots__ = ("_index", "_view", "node")

    def __init__(self, view: "NodeView", index: int, node: Node) -> None:
        self._view = view
        self._index = index
        self.node = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name

    @property
    def labels(self) -> Labels:
        """The node's labels."""
        return self.node.labels

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods on the node (in a what-if: as they would be)."""
        return self._view.pods_on(self._index)

    def allocatable(self, resource: str) -> int:
        """What the node offers of a resource."""
        return self.node.allocatable.get(resource, 0)

    def requested(self, resource: str) -> int:
        """What the pods on the node take of a resource."""
        return int(self._view.requested(resource)[self._index])


class NodeView:
    """Columns over some rows of the cluster state."""

    hypothetical = False
    as_is = True
    """Are the pods of the whole cluster those that the state has? Then what is kept holds."""

    def __init__(self, state: ClusterState, rows: Rows | None = None) -> None:
        self._state = state
        self._rows = rows
        self._labels: dict[str, LabelColumn] = {}

    def __len__(self) -> int:
        return len(self._state) if self._rows is None else len(self._rows)

    def __iter__(self) -> Iterator[NodeRow]:
        for index, row in enumerate(self.rows):
            yield NodeRow(self, index, self._state.nodes.nodes[row])

    @property
    def rows(self) -> Rows:
        """The row numbers in the cluster state that this view covers."""
        return np.arange(len(self._state)) if self._rows is None else self._rows

    @property
    def whole(self) -> "NodeView":
        """The view of the whole cluster that this one is a part of."""
        return self if self._rows is None else NodeView(self._state)

    @property
    def membership(self) -> int:
        """A number that changes whenever rows may stand for other nodes than before."""
        return self._state.stamps.latest(Aspect.MEMBERSHIP)

    @property
    def stamps(self) -> Stamps:
        """What changed when, for whoever keeps something about the whole cluster."""
        return self._state.stamps

    def stamps_of(self, aspect: Aspect) -> Ints:
        """Numbers that change with what an aspect of each row says, or with the row's node.

        They are not negative, but -1 where the pods are not those that the state has there.
        """
        return self._gather(self._state.stamps.of(aspect))

    @property
    def listers(self) -> Listers:
        """The other API objects."""
        return self._state.listers

    @property
    def search_order(self) -> Rows:
        """The rows of the whole cluster in the order nodes are looked at."""
        return self._state.order.rows(self._state.nodes.row_of)

    def row_of(self, name: str) -> int | None:
        """The row number of a node in the cluster state, if the node exists."""
        return self._state.nodes.row_of.get(name)

    def node(self, index: int) -> Node:
        """The node at a place of this view."""
        row = index if self._rows is None else int(self._rows[index])
        return self._state.nodes.nodes[row]

    def names(self) -> list[str]:
        """The nodes' names, in the view's order."""
        nodes = self._state.nodes.nodes
        return [nodes[row].name for row in self.rows]

    # Node facts

    def allocatable(self, resource: str) -> Ints:
        """What each node offers of a resource."""
        return self._gather(self._state.nodes.allocatable.values(resource))

    @property
    def unschedulable(self) -> Bools:
        """Which nodes are cordoned."""
        return self._gather(self._state.nodes.unschedulable.values)

    @property
    def taints(self) -> CodedColumn[TaintSet]:
        """Each node's taints."""
        store = self._state.nodes.taints
        return CodedColumn(self._gather(store.codes), store.vocabulary)

    @property
    def declared_features(self) -> CodedColumn[Features]:
        """Each node's declared features."""
        store = self._state.nodes.features
        return CodedColumn(self._gather(store.codes), store.vocabulary)

    def label(self, key: str) -> LabelColumn:
        """Each node's value of a label."""
        column = self._labels.get(key)
        if column is None:
            store = self._state.nodes.label(key)
            column = LabelColumn(self._gather(store.codes), store.vocabulary)
            self._labels[key] = column
        return column

    def matching_term(self, term: NodeTerm) -> Bools:
        """Which nodes pass one term of a node selector?"""
        chosen = np.full(len(self), not term.error)
        for requirement in term.labels:
            chosen &= self.label(requirement.key).matching(requirement)
        if term.fields:
            chosen &= np.fromiter(
                (NodeTerm(fields=term.fields).matches({}, name) for name in self.names()),
                np.bool_,
                len(self),
            )
        return chosen

    def matching(self, selector: CompiledNodeSelector) -> Bools:
        """Which nodes pass any term of a node selector?"""
        chosen = np.zeros(len(self), np.bool_)
        for term in selector.terms:
            chosen |= self.matching_term(term)
        return chosen

    def required_by(self, required: RequiredNodes) -> Bools:
        """Which nodes satisfy a pod's node selector and required node affinity?"""
        chosen = np.ones(len(self), np.bool_)
        for key, value in required.labels:
            column = self.label(key)
            code = column.vocabulary.find(value)
            chosen &= column.codes == code if code is not None else False
        if required.terms is not None:
            chosen &= self.matching(required.terms)
        return chosen

    @property
    def any_images(self) -> bool:
        """Is any image known of any node?"""
        return bool(self._state.images)

    def image(self, name: str) -> ImageState | None:
        """Which rows of the cluster state have an image, and how large is it?"""
        return self._state.images.find(name)

    # Usage

    def requested(self, resource: str) -> Ints:
        """What the pods on each node take of a resource."""
        return self._gather(self._state.nodes.requested.values(resource))

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same for cpu and memory, with defaults for containers without a request."""
        return self._gather(self._state.nodes.requested_with_defaults.values(resource))

    @property
    def pod_count(self) -> Ints:
        """How many pods each node has."""
        return self._gather(self._state.nodes.pod_count.values)

    # The same for one row of the cluster state, as it is (not as a hypothesis has it): for plugins
    # that are asked about a single row, many times a second.

    def amounts_at(self, row: int, resource: str) -> tuple[int, int]:
        """(requested, allocatable) of a resource."""
        nodes = self._state.nodes
        return (
            nodes.requested.columns[resource].cells[row],
            nodes.allocatable.columns[resource].cells[row],
        )

    def amounts_with_defaults_at(self, row: int, resource: str) -> tuple[int, int]:
        """(requested, allocatable) of cpu or memory, as `requested_with_defaults`."""
        nodes = self._state.nodes
        return (
            nodes.requested_with_defaults.columns[resource].cells[row],
            nodes.allocatable.columns[resource].cells[row],
        )

    def pod_count_at(self, row: int) -> int:
        """How many pods there are."""
        return self._state.nodes.pod_count.cells[row]

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The pods of the node at a place of this view."""
        row = index if self._rows is None else int(self._rows[index])
        return tuple(self._state.pods.on(row))

    def with_taken_ports(self, ports: Sequence[HostPort]) -> Bools:
        """On which nodes is one of the host ports taken?"""
        taken = np.zeros(len(self._state), np.bool_)
        taken[list(self._state.ports.conflicting_rows(ports))] = True
        return self._gather(taken)

    @property
    def volumes(self) -> AttachedVolumes:
        """Volumes of pods by row of the cluster state, as it is (not as a hypothesis has it)."""
        return self._state.volumes

    def pods_matching(self, question: Hashable, test: PodTest) -> Ints:
        """How many pods of each node pass `test`? Equal questions share a kept answer."""
        return self._gather(self._state.counts.matching(question, test))

    def pods_per_domain(self, question: Hashable, test: PodTest, key: str) -> DomainSums:
        """The same for the whole cluster, summed up over the values of a label."""
        state = self._state
        return state.counts.per_domain(question, test, key, state.nodes.label(key), state.stamps)

    def terms_per_domain(self, entry: TermEntry) -> DomainSums:
        """How many pods of the whole cluster carry a term, over the values of its topology key."""
        state = self._state
        store = state.nodes.label(entry.pod_term.term.topology_key)
        return entry.per_domain(store, state.stamps)

    def terms_matching(self, pod: Pod) -> tuple[TermEntry, ...]:
        """The affinity terms of pods on nodes that an incoming pod matches (whole cluster)."""
        return self._state.terms.matching(pod, self.listers.namespace_labels(pod.namespace))

    @property
    def terms_version(self) -> int:
        """A number that changes when an affinity term comes or goes (whole cluster)."""
        return self._state.terms.version

    def bounds(self, column: Ints) -> tuple[int, int]:
        """The smallest and the largest of this view's values of a column of the whole cluster."""
        values = self._gather(column)
        return int(values.min()), int(values.max())

    # Other views

    def take(self, places: Rows) -> "NodeView":
        """The view of some of this view's nodes."""
        return NodeView(self._state, places if self._rows is None else self._rows[places])

    def what_if(self, added: PodsByRow, removed: PodsByRow) -> "NodeView":
        """The rows named, as they would be with pods added and others removed."""
        rows = sorted(added.keys() | removed.keys())
        return WhatIfView(self._state, rows, added, removed)

    def lesser_pods(self, priority: int, now: float) -> LesserPods:
        """The pods of the whole cluster that are less important than `priority`."""
        return self._state.pods.lesser_pods(priority, now)

    def without(self, lesser: LesserPods, rows: Rows) -> "WithoutLesserPods":
        """Some rows, each as it would be without its less important pods."""
        return WithoutLesserPods(self._state, rows, lesser)

    def _gather(self, column: NDArray[T]) -> NDArray[T]:
        return column if self._rows is None else column[self._rows]


class _Hypothetical(NodeView, ABC):
    """Rows whose pods are not the ones in the state; subclasses say which pods they are."""

    hypothetical = True

    def take(self, places: Rows) -> NodeView:
        """Not offered: a hypothetical view is asked about as a whole."""
        raise TypeError("a hypothetical view cannot be cut; build it for the rows you need")

    def stamps_of(self, aspect: Aspect) -> Ints:
        """None of these rows is sure to be as the state has it."""
        del aspect
        return np.full(len(self), -1, np.int64)

    def pods_matching(self, question: Hashable, test: PodTest) -> Ints:
        """Not offered: plugins that look across nodes carry such changes in their state."""
        raise TypeError("count columns are not kept for hypothetical rows; use with_pod")

    def with_taken_ports(self, ports: Sequence[HostPort]) -> Bools:
        """On which nodes would one of the host ports be taken?"""
        return np.fromiter(
            (
                any(conflict(port.ip, self._addresses(place, port)) for port in ports)
                for place in range(len(self))
            ),
            np.bool_,
            len(self),
        )

    def _addresses(self, place: int, port: HostPort) -> set[str]:
        """The addresses on which a port would be in use: what was, less the gone, plus the new."""
        gone, new = self._changes(place)
        row = int(self.rows[place])
        addresses = self._state.ports.addresses(row, port) - addresses_of(gone, port)
        return addresses | addresses_of(new, port)

    @abstractmethod
    def _changes(self, place: int) -> tuple[Sequence[Pod], Sequence[Pod]]:
        """(pods gone, pods new) on the node at a place."""


class WhatIfView(_Hypothetical):
    """Rows with pods named one by one added and removed."""

    def __init__(
        self, state: ClusterState, rows: Sequence[int], added: PodsByRow, removed: PodsByRow
    ) -> None:
        super().__init__(state, np.array(rows, np.intp))
        self._added = added
        self._removed = removed
        self._row_at = rows
        self._coming: MovedPods | None = None
        self._going: MovedPods | None = None

    def requested(self, resource: str) -> Ints:
        """What the pods would take of a resource."""
        base = super().requested(resource)
        return self._changed(base, lambda requests: requests.occupied.get(resource, 0))

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same with defaults."""
        base = super().requested_with_defaults(resource)
        measure = _WITH_DEFAULTS.get(resource)
        return base if measure is None else self._changed(base, measure)

    @property
    def pod_count(self) -> Ints:
        """How many pods each node would have."""
        return self._changed(super().pod_count, lambda _: 1)

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The pods the node would have."""
        removed, added = self._changes(index)
        gone = {pod.uid for pod in removed}
        staying = [pod for pod in super().pods_on(index) if pod.uid not in gone]
        return (*staying, *added)

    def _changes(self, place: int) -> tuple[Sequence[Pod], Sequence[Pod]]:
        row = self._row_at[place]
        return self._removed.get(row, ()), self._added.get(row, ())

    def _changed(self, base: Ints, measure: Measure) -> Ints:
        """A column with what the pods would add to it and take from it."""
        if self._coming is None or self._going is None:
            self._coming, self._going = self._moved(self._added), self._moved(self._removed)
        column = base.copy()
        self._coming.add_to(column, measure)
        self._going.add_to(column, measure, -1)
        return column

    def _moved(self, pods: PodsByRow) -> MovedPods:
        if not pods:
            return MovedPods(())
        return MovedPods((place, pods.get(row, ())) for place, row in enumerate(self._row_at))


class WithoutLesserPods(_Hypothetical):
    """Rows without their less important pods, which can be given back one by one.

    All rows are asked about together, in columns. This is the one view that changes: it belongs to
    the preemption that made it.
    """

    def __init__(self, state: ClusterState, rows: Rows, lesser: LesserPods) -> None:
        super().__init__(state, rows)
        self._lesser = lesser
        place_of = np.full(len(state), -1, np.intp)
        place_of[rows] = np.arange(len(rows))
        self.places = place_of[lesser.rows]
        """Per lesser pod, its node's place in this view; -1 if its node is not in it."""
        self._missing = self.places >= 0

    def give_back(self, chosen: Rows) -> None:
        """Some of the lesser pods stay after all."""
        self._missing[chosen] = False

    def take_away(self, chosen: Rows) -> None:
        """They go."""
        self._missing[chosen] = True

    def joined_by(self, added: PodsByRow) -> "WithNewcomers":
        """The same rows, following every change, with some pods added."""
        return WithNewcomers(self, added)

    def requested(self, resource: str) -> Ints:
        """What the pods that are left take of a resource."""
        return super().requested(resource) - self._sum(self._lesser.requests.get(resource))

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same with defaults."""
        measure: Measure = _WITH_DEFAULTS.get(resource, lambda _: 0)
        pods = self._lesser.pods
        amounts = np.fromiter((measure(pod.requests) for pod in pods), np.int64, len(pods))
        return super().requested_with_defaults(resource) - self._sum(amounts)

    @property
    def pod_count(self) -> Ints:
        """How many pods are left."""
        gone: Ints = np.bincount(self.places[self._missing], minlength=len(self))
        return super().pod_count - gone

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The pods that are left."""
        gone = {pod.uid for pod in self._changes(index)[0]}
        return tuple(pod for pod in super().pods_on(index) if pod.uid not in gone)

    def _changes(self, place: int) -> tuple[Sequence[Pod], Sequence[Pod]]:
        here = self.places == place
        pods = self._lesser.pods
        gone = [pods[int(i)] for i in np.flatnonzero(here)]
        back = [pods[int(i)] for i in np.flatnonzero(here & ~self._missing)]
        return gone, back

    def _sum(self, amounts: Ints | None) -> Ints:
        total: Ints = np.zeros(len(self), np.int64)
        if amounts is not None:
            np.add.at(total, self.places[self._missing], amounts[self._missing])
        return total


class WithNewcomers(_Hypothetical):
    """Rows without their less important pods, but with others added."""

    def __init__(self, base: WithoutLesserPods, added: PodsByRow) -> None:
        super().__init__(base._state, base.rows)
        self._base = base
        self._added = {
            place: added[row] for place, row in enumerate(base.rows.tolist()) if row in added
        }
        self._newcomers = MovedPods(self._added.items())

    def requested(self, resource: str) -> Ints:
        """What the pods would take of a resource."""
        amounts = self._base.requested(resource)
        self._newcomers.add_to(amounts, lambda requests: requests.occupied.get(resource, 0))
        return amounts

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same with defaults."""
        amounts = self._base.requested_with_defaults(resource)
        self._newcomers.add_to(amounts, _WITH_DEFAULTS.get(resource, lambda _: 0))
        return amounts

    @property
    def pod_count(self) -> Ints:
        """How many pods each node would have."""
        counts = self._base.pod_count
        self._newcomers.add_to(counts, lambda _: 1)
        return counts

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The pods the node would have."""
        return (*self._base.pods_on(index), *self._added.get(index, ()))

    def _changes(self, place: int) -> tuple[Sequence[Pod], Sequence[Pod]]:
        gone, new = self._base._changes(place)
        return gone, (*new, *self._added.get(place, ()))
