"""The cluster as if some of its pods were not there.

Owns the view of the whole cluster, or some of its rows, less those pods; nothing in the state is
touched for it. It is for questions such as: how would the nodes compare if a pod that has a node
were still waiting, or if others had left? Unlike a `what_if`, it answers questions across nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from moorage.cluster.attached_volumes import AttachedVolumes, Disk, disk_of, weight_of
from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.host_ports import addresses_of, conflict
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.pod_terms import TermEntry, terms_of
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView, PodsByRow
from moorage.model.pod import HostPort, Pod
from moorage.model.resources import CPU, MEMORY
from moorage.model.volumes import Volume

Measure = Callable[[Pod], int]


class WithoutPods(NodeView):
    """Rows without some pods, named by the rows of their nodes as the state has them."""

    def __init__(self, state: ClusterState, gone: PodsByRow, rows: Rows | None = None) -> None:
        super().__init__(state, rows)
        self._gone = gone
        self._places: dict[int, int] = {
            int(place): row
            for row in gone
            for place in ([row] if rows is None else np.flatnonzero(rows == row))
        }
        """The places of this view that are less than the state has them, and their rows."""

    @property
    def whole(self) -> NodeView:
        """All nodes, still without the pods."""
        return self if self._rows is None else WithoutPods(self._state, self._gone)

    def take(self, places: Rows) -> NodeView:
        """Some of these nodes, still without the pods."""
        rows = places if self._rows is None else self._rows[places]
        return WithoutPods(self._state, self._gone, rows)

    def stamps_of(self, aspect: Aspect) -> Ints:
        """-1 where pods are left out."""
        stamps = super().stamps_of(aspect)
        if self._places:
            stamps = stamps.copy()
            stamps[list(self._places)] = -1
        return stamps

    def what_if(self, added: PodsByRow, removed: PodsByRow) -> NodeView:
        """The rows named, with further changes."""
        less = dict(removed)
        for row, pods in self._gone.items():
            if row in added or row in removed:
                less[row] = (*less.get(row, ()), *pods)
        return super().what_if(added, less)

    def requested(self, resource: str) -> Ints:
        """What the other pods take of a resource."""
        column = super().requested(resource)
        return self._less(column, lambda pod: pod.requests.occupied.get(resource, 0))

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same with defaults."""
        column = super().requested_with_defaults(resource)
        return self._less(column, lambda pod: _with_defaults(pod).get(resource, 0))

    @property
    def pod_count(self) -> Ints:
        """How many other pods each node has."""
        return self._less(super().pod_count, lambda _: 1)

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The other pods of a node."""
        pods = super().pods_on(index)
        row = self._places.get(index)
        if row is None:
            return pods
        gone = {pod.uid for pod in self._gone[row]}
        return tuple(other for other in pods if other.uid not in gone)

    def with_taken_ports(self, ports: Sequence[HostPort]) -> Bools:
        """On which nodes does another pod have one of the host ports?"""
        taken = super().with_taken_ports(ports)
        for place in self._places:
            # By the pods that are left: which ports are in use is kept as a set, not counted.
            others = self.pods_on(place)
            taken[place] = any(conflict(port.ip, addresses_of(others, port)) for port in ports)
        return taken

    @property
    def volumes(self) -> AttachedVolumes:
        """The volumes of the other pods."""
        if not any(pod.spec.volumes for pods in self._gone.values() for pod in pods):
            return self._state.volumes
        return _VolumesWithout(self._state.volumes, self._gone)

    def pods_matching(self, query: PodQuery) -> Ints:
        """How many other pods of each node match?"""
        return self._less(super().pods_matching(query), lambda pod: int(query.matches(pod)))

    def pods_per_domain(self, query: PodQuery, key: str) -> DomainSums:
        """The same summed up over the values of a label."""
        sums = super().pods_per_domain(query, key)
        return self._sums_less(sums, key, lambda pod: int(query.matches(pod)))

    def terms_per_domain(self, entry: TermEntry) -> DomainSums:
        """How many other pods carry a term, over the values of its topology key."""
        sums = super().terms_per_domain(entry)
        return self._sums_less(
            sums,
            entry.pod_term.term.topology_key,
            lambda pod: sum(term == entry.pod_term for term in terms_of(pod)),
        )

    def _less(self, column: Ints, measure: Measure) -> Ints:
        amounts = {place: sum(map(measure, self._gone[row])) for place, row in self._places.items()}
        if not any(amounts.values()):
            return column
        column = column.copy()
        for place, amount in amounts.items():
            column[place] -= amount
        return column

    def _sums_less(self, sums: DomainSums, key: str, measure: Measure) -> DomainSums:
        store = self._state.nodes.label(key)
        less: Counter[int] = Counter()
        for row, pods in self._gone.items():
            less[store.code_at(row)] += sum(map(measure, pods))
        return _SumsWithout(sums, less) if any(less.values()) else sums


def _with_defaults(pod: Pod) -> Mapping[str, int]:
    return {CPU: pod.requests.occupied_cpu, MEMORY: pod.requests.occupied_memory}


class _SumsWithout(DomainSums):
    """Sums with some of them less."""

    __slots__ = ("_less", "_of")

    def __init__(self, of: DomainSums, less: Mapping[int, int]) -> None:
        self._of = of
        self._less = less

    @property
    def sums(self) -> Ints:
        """One sum per code."""
        sums = self._of.sums
        for code, amount in self._less.items():
            sums[code] -= amount
        return sums

    @property
    def inside(self) -> int:
        """The sum over all domains."""
        return int(self.sums[1:].sum())

    @property
    def exist(self) -> Bools:
        """Which codes some node has."""
        return self._of.exist


class _VolumesWithout(AttachedVolumes):
    """Volumes less those of some pods."""

    def __init__(self, of: AttachedVolumes, gone: PodsByRow) -> None:
        self._of = of
        self._gone = gone
        self._claims_gone = Counter(
            (pod.namespace, volume.persistent_volume_claim.claim_name)
            for pods in gone.values()
            for pod in pods
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim is not None
        )
        self._disks_gone = Counter(
            (disk, row)
            for row, pods in gone.items()
            for volume in _volumes_of(pods)
            if (disk := disk_of(volume))
        )

    @property
    def at_most(self) -> Ints:
        """Per row, no fewer than the volumes that drivers attach for its other pods."""
        attached = self._of.at_most.copy()
        for row, pods in self._gone.items():
            attached[row] -= sum(map(weight_of, _volumes_of(pods)))
        return attached

    def claim_users(self, namespace: str, name: str) -> int:
        """How often do other pods on nodes name this claim?"""
        return self._of.claim_users(namespace, name) - self._claims_gone[namespace, name]

    def disk_users(self, disk: Disk, row: int) -> int:
        """How often do other pods of a row name a disk?"""
        return self._of.disk_users(disk, row) - self._disks_gone[disk, row]

    def rows_with(self, disks: Iterable[Disk]) -> Bools:
        """The rows with another pod that names one of the disks."""
        wanted = tuple(disks)
        found = self._of.rows_with(wanted)
        for row in self._gone:
            if found[row]:
                found[row] = any(self.disk_users(disk, row) for disk in wanted)
        return found


def _volumes_of(pods: Iterable[Pod]) -> Iterator[Volume]:
    return (volume for pod in pods for volume in pod.spec.volumes)
