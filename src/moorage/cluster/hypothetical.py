"""Nodes as they would be: with pods that are not there, or without some that are.

Owns the views for nominated pods and preemption. Plugins read them like any `NodeView`; what is
kept for the nodes as they are (stamps, counts) is not offered. Must not change the state.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import attrgetter

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.host_ports import addresses_of, conflict
from moorage.cluster.moved_pods import Measure, MovedPods
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.pod_table import LesserPods
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView, PodsByRow
from moorage.model.pod import HostPort, Pod
from moorage.model.resources import CPU, MEMORY

_WITH_DEFAULTS: Mapping[str, Measure] = {
    CPU: attrgetter("occupied_cpu"),
    MEMORY: attrgetter("occupied_memory"),
}


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

    def pods_matching(self, query: PodQuery) -> Ints:
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
        """The pods that are left, those that were given back included."""
        missing = np.flatnonzero((self.places == index) & self._missing)
        gone = {self._lesser.pods[int(i)].uid for i in missing}
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
