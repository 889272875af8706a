"""The order nodes are looked at: zones take turns, as in kube-scheduler's node tree.

Zones stand in the order they were first seen, nodes in the order they came; a node whose zone
changes goes to the end of its new zone. Of equal nodes one is taken by name, so that a scheduler
that was started later takes the same.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from moorage.model.node import Node


class NodeOrder:
    """Node names by zone, and the interleaved order of rows derived from them."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}
        self._order: NDArray[np.intp] | None = None
        self._places: NDArray[np.intp] | None = None

    def add(self, node: Node) -> None:
        """A node came, or its zone may have changed."""
        name, zone = node.name, node.zone
        if self._zone_of.get(name) == zone:
            return
        self.remove(name)
        self._zones.setdefault(zone, {})[name] = None
        self._zone_of[name] = zone
        self._order = self._places = None

    def remove(self, name: str) -> None:
        """A node went; also called when rows move, which changes the order of rows."""
        zone = self._zone_of.pop(name, None)
        if zone is not None:
            members = self._zones[zone]
            del members[name]
            if not members:
                del self._zones[zone]
        self._order = self._places = None

    def rows(self, row_of: dict[str, int]) -> NDArray[np.intp]:
        """Row numbers in the order nodes are looked at."""
        if self._order is None:
            self._order = np.fromiter((row_of[name] for name in self.names()), np.intp, len(row_of))
        return self._order

    def places(self, row_of: dict[str, int]) -> NDArray[np.intp]:
        """Where each row comes if zones and their nodes stand by name."""
        if self._places is None:
            names = _in_turns(sorted(self._zones[zone]) for zone in sorted(self._zones))
            rows = np.fromiter((row_of[name] for name in names), np.intp, len(row_of))
            self._places = np.empty(len(row_of), np.intp)
            self._places[rows] = np.arange(len(row_of))
        return self._places

    def copy(self) -> "NodeOrder":
        """The same order, to be changed by itself."""
        other = NodeOrder()
        other._zones = {zone: dict(members) for zone, members in self._zones.items()}
        other._zone_of = dict(self._zone_of)
        return other

    def names(self) -> list[str]:
        """The nodes in the order they are looked at; nodes added in this order keep it."""
        return _in_turns(self._zones.values())


def _in_turns(zones: Iterable[Iterable[str]]) -> list[str]:
    """One node of each zone after the other."""
    names: list[str] = []
    turns = [iter(zone) for zone in zones]
    while turns:
        still = []
        for turn in turns:
            name = next(turn, None)
            if name is not None:
                names.append(name)
                still.append(turn)
        turns = still
    return names
