"""What nodes have and give at some moments: balance, zones, what is free in vain.

Owns what is worked out node by node; totals are `timelines`'.
"""

from collections.abc import Mapping

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.controllers.objects import Json
from moorage.model.resources import PODS
from moorage.scenarios.quality.fragmentation import by_name, unusable, usual_shapes
from moorage.scenarios.quality.statistics import short
from moorage.scenarios.quality.timelines import Timelines

_MOMENTS = 101
_EVERY = 5
"""Of the moments, fragmentation is looked at every so many."""


class NodeTables:
    """For each resource a table of moments by nodes."""

    def __init__(self, times: Timelines) -> None:
        self._times = times
        self.moments = times.moments(_MOMENTS)
        count = len(times.nodes)
        self._capacity: dict[str, Ints] = {}
        self._asked: dict[str, Ints] = {}
        self.imbalance: dict[str, Floats] = {}
        """The standard deviation of the nodes' shares."""
        for name in times.resources:
            capacity = times.capacity[name].by_node(self.moments, count)
            asked = times.asked[name].by_node(self.moments, count)
            self._capacity[name], self._asked[name] = capacity, asked
            if name != PODS:
                self.imbalance[name] = _spread(asked, capacity)

    def zone_skew(self) -> Mapping[str, Floats]:
        """How much more of its resource the fullest zone has given than the emptiest."""
        zones = sorted(set(self._times.zones) - {""})
        if len(zones) < 2:
            return {}
        member = np.array([[zone == one for one in zones] for zone in self._times.zones])
        found: dict[str, Floats] = {}
        for name in self.imbalance:
            capacity, asked = self._capacity[name] @ member, self._asked[name] @ member
            share = asked / np.maximum(capacity, 1)
            most = np.where(capacity > 0, share, 0.0).max(axis=1)
            least = np.where(capacity > 0, share, np.inf).min(axis=1)
            found[name] = np.where(np.isfinite(least), most - least, 0.0)
        return found

    def fragmentation(self) -> Json:
        """The share of each resource that is free in vain, the mean over time, and why."""
        names = self._times.resources
        if not names:
            return {}  # there was never a node
        shapes = usual_shapes((pod.requests for pod in self._times.pods), names)
        places = range(0, len(self.moments), _EVERY)
        lost, causes = np.zeros(len(names)), np.zeros((len(names), len(names)))
        for place in places:
            capacity = np.stack([self._capacity[name][place] for name in names], axis=1)
            asked = np.stack([self._asked[name][place] for name in names], axis=1)
            there = capacity.any(axis=1)
            found = unusable((capacity - asked)[there], shapes)
            whole = np.maximum(capacity.sum(axis=0), 1)
            lost += found.amount / whole
            causes += found.because / whole[:, None]
        return {
            name: {
                "mean": short(float(lost[row]) / len(places)),
                "because": by_name(causes[row] / len(places), names),
            }
            for row, name in enumerate(names)
            if name != PODS
        }


def _spread(asked: Ints, capacity: Ints) -> Floats:
    """The standard deviation of the nodes' shares, for each moment."""
    there = capacity > 0
    count = np.maximum(there.sum(axis=1), 1)
    share = np.where(there, asked / np.maximum(capacity, 1), 0.0)
    mean = share.sum(axis=1) / count
    squares = np.where(there, (share - mean[:, None]) ** 2, 0.0).sum(axis=1)
    found: Floats = np.sqrt(squares / count)
    return found
