"""Nodes as if nothing ran on them and no image were known: what an extender's objects amount to.

Only for scoring what an extender answered with node objects. Facts of the nodes themselves, and
everything about the whole cluster, stay as they are.
"""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.images import ImageState
from moorage.cluster.pod_query import PodQuery
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.model.pod import HostPort, Pod


class PodlessView(NodeView):
    """Some rows without their pods."""

    def __init__(self, state: ClusterState, rows: Rows) -> None:
        super().__init__(state, rows)

    def requested(self, resource: str) -> Ints:
        """Nothing."""
        del resource
        return self._nothing()

    def requested_with_defaults(self, resource: str) -> Ints:
        """Nothing."""
        del resource
        return self._nothing()

    @property
    def pod_count(self) -> Ints:
        """No pods."""
        return self._nothing()

    def pods_on(self, index: int) -> Sequence[Pod]:
        """No pods."""
        del index
        return ()

    def pods_matching(self, query: PodQuery) -> Ints:
        """No pods."""
        del query
        return self._nothing()

    def with_taken_ports(self, ports: Sequence[HostPort]) -> Bools:
        """No port is taken."""
        del ports
        return np.zeros(len(self), np.bool_)

    def image(self, name: str) -> ImageState | None:
        """No image is known."""
        del name
        return None

    def take(self, places: Rows) -> NodeView:
        """Some of these nodes, still without pods."""
        return PodlessView(self._state, self.rows[places])

    def _nothing(self) -> Ints:
        return np.zeros(len(self), np.int64)
