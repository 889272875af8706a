"""NodeView: what plugins see of the cluster.

One type covers the whole cluster, some of its rows (`take`) and rows as they would be if pods came
or went (`what_if`, see `cluster.overlay`), so a plugin is written once and serves the cycle,
nominated pods and preemption alike. Arrays are read-only; a view is valid until the state changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from moorage.cluster.attached_volumes import AttachedVolumes
from moorage.cluster.coded import CodedColumn, LabelColumn
from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.images import ImageState
from moorage.cluster.listers import Listers
from moorage.cluster.node_table import Features, ResourceColumns, TaintSet
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.pod_table import LesserPods
from moorage.cluster.pod_terms import TermEntry
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.stamps import Aspect, Stamps
from moorage.cluster.state import ClusterState
from moorage.model.labels import Labels, Requirement
from moorage.model.node import Node
from moorage.model.node_selector import NAME_FIELD, CompiledNodeSelector, NodeTerm
from moorage.model.pod import HostPort, Pod, RequiredNodes

if TYPE_CHECKING:
    from moorage.cluster.overlay import Overlay

T = TypeVar("T", bound=np.generic)

PodsByRow = Mapping[int, Sequence[Pod]]


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

    def __init__(self, state: ClusterState, rows: Rows | None = None) -> None:
        self._state = state
        self._rows = rows
        self._size = len(state) if rows is None else len(rows)
        self._whole: NodeView | None = None
        self._terms: tuple[Pod, tuple[TermEntry, ...]] | None = None
        """The pod that terms were found for last, and these."""
        self._labels: dict[str, LabelColumn] = {}
        self._amounts: dict[tuple[int, str], Ints] = {}
        """Amounts of some rows, picked out once for all plugins."""

    def __len__(self) -> int:
        return self._size

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
        if self._rows is None:
            return self
        if self._whole is None:
            self._whole = NodeView(self._state)
        return self._whole

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
        return self.gather(self._state.stamps.of(aspect))

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

    def row_of_pod(self, pod: Pod) -> int | None:
        """The row number of the node that a pod is on, if it is on one."""
        return self._state.nodes.row_of.get(self._state.node_of(pod) or "")

    def node(self, index: int) -> Node:
        """The node at a place of this view."""
        row = index if self._rows is None else int(self._rows[index])
        return self._state.nodes.nodes[row]

    def names(self) -> list[str]:
        """The nodes' names, in the view's order."""
        table = self._state.nodes
        if self._rows is not None:
            return [table.nodes[row].name for row in self._rows.tolist()]
        names = [""] * len(table.nodes)
        for name, row in table.row_of.items():  # sooner done than asking every node
            names[row] = name
        return names

    # Node facts

    def allocatable(self, resource: str) -> Ints:
        """What each node offers of a resource."""
        return self._amounts_of(self._state.nodes.allocatable, resource)

    @property
    def unschedulable(self) -> Bools:
        """Which nodes are cordoned."""
        return self.gather(self._state.nodes.unschedulable.values)

    @property
    def taints(self) -> CodedColumn[TaintSet]:
        """Each node's taints."""
        store = self._state.nodes.taints
        return CodedColumn(self.gather(store.codes), store.vocabulary)

    @property
    def declared_features(self) -> CodedColumn[Features]:
        """Each node's declared features."""
        store = self._state.nodes.features
        return CodedColumn(self.gather(store.codes), store.vocabulary)

    def label(self, key: str) -> LabelColumn:
        """Each node's value of a label."""
        column = self._labels.get(key)
        if column is None:
            store = self._state.nodes.label(key)
            column = LabelColumn(self.gather(store.codes), store.vocabulary)
            self._labels[key] = column
        return column

    def matching_term(self, term: NodeTerm) -> Bools:
        """Which nodes pass one term of a node selector?"""
        chosen = np.full(len(self), not term.error)
        for requirement in term.labels:
            chosen &= self.label(requirement.key).matching(requirement)
        for requirement in term.fields:
            chosen &= self._matching_field(requirement)
        return chosen

    def _matching_field(self, requirement: Requirement) -> Bools:
        """Which nodes' field is the one value, or is another one? Unknown fields are empty."""
        (value,) = requirement.values
        if requirement.key == NAME_FIELD:
            row = self.row_of(value)
            named: Bools = self.rows == (-1 if row is None else row)
        else:
            named = np.full(len(self), not value)
        return named if requirement.operator == "In" else ~named

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
        return self._amounts_of(self._state.nodes.requested, resource)

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same for cpu and memory, with defaults for containers without a request."""
        return self._amounts_of(self._state.nodes.requested_with_defaults, resource)

    @property
    def pod_count(self) -> Ints:
        """How many pods each node has."""
        return self.gather(self._state.nodes.pod_count.values)

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
        among = None if self._rows is None else self._rows.tolist()
        taken = np.zeros(len(self._state), np.bool_)
        taken[list(self._state.ports.conflicting_rows(ports, among))] = True
        return self.gather(taken)

    def port_addresses(self, index: int, port: HostPort) -> set[str]:
        """The addresses on which a host port is in use on the node at a place of this view."""
        row = index if self._rows is None else int(self._rows[index])
        return self._state.ports.addresses(row, port)

    @property
    def volumes(self) -> AttachedVolumes:
        """Volumes of pods by row of the cluster state."""
        return self._state.volumes

    def pods_matching(self, query: PodQuery) -> Ints:
        """How many pods of each node match?"""
        return self.gather(self._state.counts.matching(query))

    def pods_per_domain(self, query: PodQuery, key: str) -> DomainSums:
        """The same for the whole cluster, summed up over the values of a label."""
        return self._state.counts.per_domain(query, self._state.domains(key))

    def terms_per_domain(self, entry: TermEntry) -> DomainSums:
        """How many pods of the whole cluster carry a term, over the values of its topology key."""
        return entry.per_domain(self._state.domains(entry.pod_term.term.topology_key))

    def terms_matching(self, pod: Pod) -> tuple[TermEntry, ...]:
        """The affinity terms of pods on nodes that an incoming pod matches (whole cluster)."""
        if self._rows is not None:
            return self.whole.terms_matching(pod)
        if self._terms is None or self._terms[0] is not pod:
            labels = self.listers.namespace_labels(pod.namespace)
            self._terms = (pod, self._state.terms.matching(pod, labels))
        return self._terms[1]

    # Other views

    def take(self, places: Rows) -> "NodeView":
        """The view of some of this view's nodes."""
        view = NodeView(self._state, places if self._rows is None else self._rows[places])
        view._whole = self.whole
        return view

    def what_if(self, added: PodsByRow, removed: PodsByRow) -> "Overlay":
        """The rows named, as they would be with pods added and others removed."""
        rows = np.array(sorted(added.keys() | removed.keys()), np.intp)
        return self.whole.take(rows).changed(added, removed)

    def changed(self, added: PodsByRow, removed: PodsByRow) -> "Overlay":
        """The same nodes, as they would be with pods added and others removed."""
        from moorage.cluster.overlay import Overlay  # a view itself

        moves = [(row, pod, -1) for row, pods in removed.items() for pod in pods]
        moves += [(row, pod, 1) for row, pods in added.items() for pod in pods]
        rows = np.array([row for row, _, _ in moves], np.intp)
        change = np.array([sign for _, _, sign in moves], np.int64)
        return Overlay(self, [pod for _, pod, _ in moves], rows, change)

    def lesser_pods(self, priority: int, now: float) -> LesserPods:
        """The pods of the whole cluster that are less important than `priority`."""
        return self._state.pods.lesser_pods(priority, now)

    def have_lesser_pods(self, priority: int) -> Bools:
        """The nodes that hold pods less important than `priority`."""
        column = np.zeros(len(self.whole), np.bool_)
        column[self._state.pods.rows_with_lesser(priority)] = True
        return self.gather(column)

    def without(self, lesser: LesserPods, rows: Rows) -> "Overlay":
        """Some rows, each as it would be without its less important pods."""
        from moorage.cluster.overlay import Overlay  # a view itself

        change = np.where(np.isin(lesser.rows, rows), -1, 0)
        return Overlay(self.whole.take(rows), lesser.pods, lesser.rows, change, lesser.requests)

    def gather(self, column: NDArray[T]) -> NDArray[T]:
        """What a column of the whole cluster says of the nodes of this view."""
        return column if self._rows is None else column.take(self._rows, axis=-1)

    def _amounts_of(self, columns: ResourceColumns, resource: str) -> Ints:
        if self._rows is None:
            return columns.values(resource)
        key = (id(columns), resource)
        amounts = self._amounts.get(key)
        if amounts is None:
            amounts = self._amounts[key] = columns.values(resource).take(self._rows)
            amounts.flags.writeable = False
        return amounts
