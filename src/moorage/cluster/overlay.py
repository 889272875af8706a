"""Nodes as they would be if pods came to them or left them.

Owns the one view that differs from the state: of nominated pods, of preemption, of pods that are
looked at as if they were still waiting. Plugins read it like any `NodeView`. Must not change the
state.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from moorage.cluster.attached_volumes import AttachedVolumes, Disk, disk_of, weight_of
from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.host_ports import addresses_of, conflict
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.pod_terms import TermEntry
from moorage.cluster.row_counts import DomainSums
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.model.pod import HostPort, Pod
from moorage.model.resources import CPU, MEMORY

Measure = Callable[[Pod], int]
Move = tuple[int, Pod, int]
"""A row of the cluster state, a pod, and whether it comes (1) or leaves (-1)."""


class Overlay(NodeView):
    """Another view with pods added and removed.

    Preemption gives pods back and takes them away again, so this is the one view that changes. It
    belongs to whoever made it.
    """

    def __init__(
        self,
        base: NodeView,
        pods: Sequence[Pod],
        pod_rows: Rows,
        change: Ints,
        requests: Mapping[str, Ints] | None = None,
    ) -> None:
        """Lay pods over a view.

        `change` says of each pod whether it comes (1), leaves (-1) or stays (0), and `pod_rows` on
        which row of the cluster state; `requests` are the pods' requests, as far as they are known.
        """
        super().__init__(base._state, base._rows)
        self._base = base
        self._pods = pods
        self._pod_rows = pod_rows
        self._change = change
        self._requests = dict(requests or {})
        self.places = pod_rows if base._rows is None else _places(pod_rows, base._rows)
        """Per pod, its node's place in this view; -1 if its node is not in it."""
        self._pods_at: dict[int, list[int]] | None = None
        self._moving_now: Rows | None = None

    def give_back(self, chosen: Rows) -> None:
        """Some of the pods that leave stay after all."""
        self._change[chosen] = 0
        self._moving_now = None

    def take_away(self, chosen: Rows) -> None:
        """They leave."""
        self._change[chosen] = -1
        self._moving_now = None

    @property
    def whole(self) -> NodeView:
        """All nodes, with the same changes."""
        return self if self._rows is None else self._over(self._base.whole)

    def take(self, places: Rows) -> NodeView:
        """Some of these nodes, with the same changes."""
        return self._over(self._base.take(places))

    def stamps_of(self, aspect: Aspect) -> Ints:
        """-1 where the pods are not those that the state has."""
        stamps = self._base.stamps_of(aspect).copy()
        stamps[self.places[self._moving()]] = -1
        return stamps

    def requested(self, resource: str) -> Ints:
        """What the pods would take of a resource."""
        amounts = self._requests.get(resource)
        if amounts is None:
            amounts = self._of_each(lambda pod: pod.requests.occupied.get(resource, 0))
            self._requests[resource] = amounts
        return self._changed(self._base.requested(resource), amounts)

    def requested_with_defaults(self, resource: str) -> Ints:
        """The same with defaults."""
        base = self._base.requested_with_defaults(resource)
        if resource not in (CPU, MEMORY):
            return base
        amounts = self._of_each(lambda pod: pod.requests.occupied_with_defaults[resource])
        return self._changed(base, amounts)

    @property
    def pod_count(self) -> Ints:
        """How many pods each node would have."""
        return self._changed(self._base.pod_count, np.ones(len(self._pods), np.int64))

    def pods_on(self, index: int) -> Sequence[Pod]:
        """The pods the node would have."""
        here = self._moves_at(index)
        gone = {pod.uid for pod, change in here if change < 0}
        staying = (pod for pod in self._base.pods_on(index) if pod.uid not in gone)
        return (*staying, *(pod for pod, change in here if change > 0))

    def with_taken_ports(self, ports: Sequence[HostPort]) -> Bools:
        """On which nodes would one of the host ports be taken?"""
        taken = self._base.with_taken_ports(ports)
        for place in np.unique(self.places[self.places >= 0]).tolist():
            taken[place] = any(conflict(p.ip, self.port_addresses(place, p)) for p in ports)
        return taken

    def port_addresses(self, index: int, port: HostPort) -> set[str]:
        """The addresses on which a host port would be in use: a pod given back takes it again."""
        here = self._moves_at(index)
        gone = addresses_of((pod for pod, change in here if change <= 0), port)
        new = addresses_of((pod for pod, change in here if change >= 0), port)
        return (self._base.port_addresses(index, port) - gone) | new

    @property
    def volumes(self) -> AttachedVolumes:
        """The volumes the pods would have."""
        moves = [move for move in self._moves() if move[1].spec.volumes]
        return _ChangedVolumes(self._base.volumes, moves) if moves else self._base.volumes

    def pods_matching(self, query: PodQuery) -> Ints:
        """How many pods of each node would match?"""
        matching = self._of_each(lambda pod: int(query.matches(pod)))
        return self._changed(self._base.pods_matching(query), matching)

    def pods_per_domain(self, query: PodQuery, key: str) -> DomainSums:
        """The same for the whole cluster, summed up over the values of a label."""
        sums = self._base.pods_per_domain(query, key)
        return self._changed_sums(sums, key, lambda pod: int(query.matches(pod)))

    def terms_per_domain(self, entry: TermEntry) -> DomainSums:
        """How many pods would carry a term, over the values of its topology key."""
        return self._changed_sums(
            self._base.terms_per_domain(entry),
            entry.pod_term.term.topology_key,
            lambda pod: pod.affinity_terms.all.count(entry.pod_term),
        )

    def terms_matching(self, pod: Pod) -> tuple[TermEntry, ...]:
        """The affinity terms of pods in the state; not offered if pods with terms come."""
        if any(change > 0 and other.affinity_terms.all for _, other, change in self._moves()):
            raise TypeError("the terms of pods that would come are not indexed; use with_pod")
        return self._base.terms_matching(pod)

    def _over(self, base: NodeView) -> "Overlay":
        return Overlay(base, self._pods, self._pod_rows, self._change.copy(), self._requests)

    def _moving(self) -> Rows:
        """The pods that come to nodes of this view, or leave them."""
        if self._moving_now is None:
            self._moving_now = np.flatnonzero((self._change != 0) & (self.places >= 0))
        return self._moving_now

    def _moves(self) -> list[Move]:
        """All pods that come or leave, in the whole cluster."""
        return [
            (int(self._pod_rows[i]), self._pods[i], int(self._change[i]))
            for i in np.flatnonzero(self._change).tolist()
        ]

    def _moves_at(self, place: int) -> list[tuple[Pod, int]]:
        """The pods named for a place, and what becomes of them."""
        if self._pods_at is None:
            self._pods_at = {}
            for i, at in enumerate(self.places.tolist()):
                self._pods_at.setdefault(at, []).append(i)
        return [(self._pods[i], int(self._change[i])) for i in self._pods_at.get(place, ())]

    def _of_each(self, measure: Measure) -> Ints:
        return np.fromiter(map(measure, self._pods), np.int64, len(self._pods))

    def _changed(self, column: Ints, amounts: Ints) -> Ints:
        """A column with what the pods would add to it and take from it."""
        moving = self._moving()
        column = column.copy()
        np.add.at(column, self.places[moving], self._change[moving] * amounts[moving])
        return column

    def _changed_sums(self, sums: DomainSums, key: str, measure: Measure) -> DomainSums:
        store = self._state.nodes.label(key)
        change: Counter[int] = Counter()
        for row, pod, sign in self._moves():
            change[store.cells[row]] += sign * measure(pod)
        return _ChangedSums(sums, change) if any(change.values()) else sums


def _places(pod_rows: Rows, rows: Rows) -> Rows:
    """Where each row stands among others; -1 if it does not."""
    most = max(int(rows.max(initial=-1)), int(pod_rows.max(initial=-1)))
    place_of = np.full(most + 1, -1, np.intp)
    place_of[rows] = np.arange(len(rows))
    return place_of[pod_rows]


class _ChangedSums(DomainSums):
    """Sums with some of them changed."""

    __slots__ = ("_change", "_of")

    def __init__(self, of: DomainSums, change: Mapping[int, int]) -> None:
        self._of = of
        self._change = change

    @property
    def sums(self) -> Ints:
        """One sum per code."""
        sums = self._of.sums
        for code, amount in self._change.items():
            sums[code] += amount
        return sums

    @property
    def nothing(self) -> bool:
        """Not known."""
        return False

    @property
    def exist(self) -> Bools:
        """Which codes some node has."""
        return self._of.exist


class _ChangedVolumes(AttachedVolumes):
    """Volumes with those of some pods added or left out."""

    def __init__(self, of: AttachedVolumes, moves: Sequence[Move]) -> None:
        self._of = of
        self._moves = moves
        self._claim_change: Counter[tuple[str, str]] = Counter()
        self._disk_change: Counter[tuple[Disk, int]] = Counter()
        for row, pod, sign in moves:
            for volume in pod.spec.volumes:
                claim, disk = volume.persistent_volume_claim, disk_of(volume)
                if claim is not None:
                    self._claim_change[pod.namespace, claim.claim_name] += sign
                if disk is not None:
                    self._disk_change[disk, row] += sign

    @property
    def at_most(self) -> Ints:
        """Per row, no fewer than the volumes that drivers would attach for its pods."""
        attached = self._of.at_most.copy()
        for row, pod, sign in self._moves:
            attached[row] += sign * sum(map(weight_of, pod.spec.volumes))
        return attached

    def claim_users(self, namespace: str, name: str) -> int:
        """How often would pods on nodes name this claim?"""
        return self._of.claim_users(namespace, name) + self._claim_change[namespace, name]

    def disk_users(self, disk: Disk, row: int) -> int:
        """How often would pods of a row name a disk?"""
        return self._of.disk_users(disk, row) + self._disk_change[disk, row]

    def rows_with(self, disks: Iterable[Disk]) -> Bools:
        """The rows with a pod that would name one of the disks."""
        wanted = tuple(disks)
        found = self._of.rows_with(wanted)
        for row in {row for row, _, _ in self._moves}:
            found[row] = any(self.disk_users(disk, row) for disk in wanted)
        return found
