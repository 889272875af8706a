"""How many volumes drivers can attach to each node, and the VolumeAttachments that are there.

Must not know which pods use them.
"""

from collections.abc import Collection

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.model.storage import CSINode, VolumeAttachment

_NO_LIMIT = np.iinfo(np.int64).max


class Limits:
    """What CSINodes say of all rows, as columns; made again after any of them changed."""

    def __init__(self, nodes: NodeView, listers: Listers, as_of: tuple[int, int]) -> None:
        self.as_of = as_of
        lister = listers.of(CSINode)
        self._csi_nodes = [lister.get(name) for name in nodes.names()]
        self._by_driver: dict[str, Ints] = {}
        self.known: Bools = np.array([node is not None for node in self._csi_nodes], np.bool_)
        self.any_limit: Bools = np.array(
            [node is not None and bool(node.limits) for node in self._csi_nodes], np.bool_
        )

    def of(self, driver: str) -> Ints:
        """How many volumes of a driver each row can have."""
        column = self._by_driver.get(driver)
        if column is None:
            column = self._by_driver[driver] = np.array(
                [
                    _NO_LIMIT if node is None else node.limits.get(driver, _NO_LIMIT)
                    for node in self._csi_nodes
                ],
                np.int64,
            )
        return column

    def with_driver(self, driver: str) -> Bools:
        """The rows on which a driver runs."""
        return np.array(
            [
                node is not None and any(known.name == driver for known in node.spec.drivers)
                for node in self._csi_nodes
            ],
            np.bool_,
        )


class Attachments:
    """The attachments of each node, and how many each row has."""

    def __init__(self, listers: Listers) -> None:
        self._lister = listers.of(VolumeAttachment)
        self._as_of = 0  # a lister begins with no objects, as we do
        self._membership = -1
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._node_of: dict[str, str] = {}
        self.counts: Ints = np.empty(0, np.int64)
        """Per row of the cluster state."""

    def on(self, node_name: str) -> Collection[VolumeAttachment]:
        """The attachments of a node."""
        return self._by_node.get(node_name, {}).values()

    def refresh(self, nodes: NodeView) -> set[str]:
        """Follow what changed; the names of the nodes that have others than before."""
        changed: set[str] = set()
        if self._as_of != self._lister.generation:
            names = self._lister.changes_since(self._as_of)
            if names is None:
                names = {(one.namespace, one.name) for one in self._lister}
                names.update(("", name) for name in self._node_of)
            self._as_of = self._lister.generation
            for _, name in names:
                changed.update(self._follow(name))
        if self._membership != nodes.membership:
            self._membership = nodes.membership
            self.counts = np.zeros(len(nodes.whole), np.int64)
            recounted: Collection[str] = self._by_node
        else:
            recounted = changed
        for name in recounted:
            row = nodes.row_of(name)
            if row is not None:
                self.counts[row] = len(self.on(name))
        return changed

    def _follow(self, name: str) -> set[str]:
        """One attachment came, changed or went; the nodes that this is about."""
        before = self._node_of.pop(name, None)
        if before is not None:
            here = self._by_node[before]
            del here[name]
            if not here:
                del self._by_node[before]
        now = self._lister.get(name)
        if now is None:
            return set() if before is None else {before}
        node_name = self._node_of[name] = now.spec.node_name
        self._by_node.setdefault(node_name, {})[name] = now
        return {node_name} if before is None else {before, node_name}
