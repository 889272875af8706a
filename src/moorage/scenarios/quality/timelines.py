"""How much of the cluster was asked for, and when: worked out of the lives, all moments at once.

Owns totals over time, means over time, and what each node had at some moments.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.scenarios.quality.lives import Lives, PodLife

Until = Callable[[PodLife], tuple[float | None, float | None]]
"""From when to when a pod counts; None: never, or to the end."""


class Steps(NamedTuple):
    """An amount that changes now and then: so much more of a resource on a node."""

    at: Floats
    node: Ints
    amount: Ints

    def total(self, moments: Floats) -> Ints:
        """The sum over all nodes at these moments."""
        order = np.argsort(self.at, kind="stable")
        sums = np.concatenate(([0], np.cumsum(self.amount[order])))
        found: Ints = sums[np.searchsorted(self.at[order], moments, side="right")]
        return found

    def area(self, span: float) -> float:
        """The sum over all nodes and all time: so much for so many seconds."""
        return float(((span - self.at) * self.amount).sum())

    def by_node(self, moments: Floats, nodes: int) -> Ints:
        """Of each node at these moments: a row for each moment."""
        table: Ints = np.zeros((len(moments) + 1, nodes), np.int64)
        first = np.searchsorted(moments, self.at, side="left")
        np.add.at(table, (first, self.node), self.amount)
        return table[:-1].cumsum(axis=0)


def bound(pod: PodLife) -> tuple[float | None, float | None]:
    """While it takes room on a node."""
    return pod.bound, pod.ended


def running(pod: PodLife) -> tuple[float | None, float | None]:
    """While its containers run and nobody has told it to go."""
    ends = [at for at in (pod.ended, pod.leaving) if at is not None]
    return (pod.running if pod.bound is not None else None), min(ends, default=None)


def pending(pod: PodLife) -> tuple[float | None, float | None]:
    """While it waits for a node."""
    return pod.created, pod.gone if pod.bound is None else pod.bound


class Timelines:
    """The cluster over time."""

    def __init__(self, lives: Lives, span: float) -> None:
        self.span = span
        self.pods = lives.pods
        self.nodes = sorted({one.node for one in lives.capacity} | {p.node for p in self.pods})
        self._place = {name: place for place, name in enumerate(self.nodes)}
        self.zones: Sequence[str] = [lives.zones.get(name, "") for name in self.nodes]
        self.capacity = {
            resource: _steps(
                (one.at, self._place[one.node], one.more[resource])
                for one in lives.capacity
                if one.more.get(resource)
            )
            for resource in sorted({name for one in lives.capacity for name in one.more})
        }
        self.resources = tuple(name for name, steps in self.capacity.items() if len(steps.at))
        """Those that some node has."""
        self.asked = {name: self.requested(name, bound) for name in self.resources}
        """By pods with a node."""
        self.used = {name: self.requested(name, running) for name in self.resources}
        """By pods that run."""

    def moments(self, count: int) -> Floats:
        """So many moments from the beginning to the end, evenly spread."""
        return np.linspace(0.0, self.span, count) if self.span else np.zeros(1)

    def requested(
        self, resource: str, counts: Until, pods: Iterable[PodLife] | None = None
    ) -> Steps:
        """What pods ask for, while they count."""
        found: list[tuple[float, int, int]] = []
        for pod in self.pods if pods is None else pods:
            amount = pod.requests.get(resource, 0)
            since, until = counts(pod)
            if amount and since is not None and (until is None or until > since):
                found.append((since, self._place[pod.node], amount))
                if until is not None:
                    found.append((until, self._place[pod.node], -amount))
        return _steps(found)

    def waiting(self, moments: Floats) -> Ints:
        """How many pods wait for a node at these moments."""
        found: list[tuple[float, int, int]] = []
        for pod in self.pods:
            since, until = pending(pod)
            found += [] if since is None else [(since, 0, 1)]
            found += [] if until is None else [(until, 0, -1)]
        return _steps(found).total(moments)

    def mean_share(self, resource: str, asked: Steps) -> float:
        """Of all that nodes had to give over time, the share that was asked for."""
        whole = self.capacity[resource].area(self.span)
        return asked.area(self.span) / whole if whole else 0.0

    def shares(self, resource: str, asked: Steps, moments: Floats) -> Floats:
        """The share that is asked for at these moments."""
        whole = self.capacity[resource].total(moments)
        return asked.total(moments) / np.maximum(whole, 1)

    def peak_share(self, resource: str, asked: Steps) -> float:
        """The largest share at any time."""
        moments = np.unique(np.concatenate((asked.at, self.capacity[resource].at)))
        return float(self.shares(resource, asked, moments).max(initial=0.0))


def _steps(found: Iterable[tuple[float, int, int]]) -> Steps:
    rows = list(found)
    return Steps(
        np.array([row[0] for row in rows], np.float64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.int64),
    )
