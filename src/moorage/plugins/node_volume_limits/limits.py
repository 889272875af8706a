"""How many volumes drivers can attach to each node, in columns. Must not know what is attached."""

import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.listers import Listers
from moorage.cluster.view import NodeView
from moorage.model.storage import CSINode

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
