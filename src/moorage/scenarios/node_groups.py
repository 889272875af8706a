"""Groups of equal nodes that come and go: their names, their members, those on their way."""

from functools import partial
from typing import NamedTuple

from moorage.controllers.objects import Json, labels, meta
from moorage.model.decode import decode_object
from moorage.model.node import Node
from moorage.scenarios.prices import PRICE, Prices
from moorage.scenarios.simulation import Simulation
from moorage.simulator.node_shapes import NodeShape, shaped_node

GROUP = "moorage.io/node-group"
"""The label of nodes that says to which group, or to which shape, they belong."""


class GroupLimits(NamedTuple):
    """What a group is made of, and how far it goes."""

    shape: NodeShape
    least: int
    most: int
    start_seconds: float


class ScalingGroup:
    """The nodes of one group in a simulation."""

    def __init__(self, run: Simulation, prices: Prices, limits: GroupLimits) -> None:
        self.name = limits.shape.name
        self.limits = limits
        self.starting: dict[str, Json] = {}
        """Ordered and paid for, but not there yet."""
        self._run, self._prices = run, prices
        self._shape = limits.shape
        self._number = 0

    @property
    def price(self) -> float:
        """Of a node, per hour."""
        return float(self._shape.price or 0)

    def change_price(self, price: str) -> None:
        """Nodes that are ordered from now on cost so much."""
        self._shape = self._shape._replace(price=price)

    def members(self) -> list[Json]:
        """The nodes that are there."""
        nodes = self._run.api.cluster.all("Node")
        return [node for node in nodes if labels(node).get(GROUP) == self.name]

    def room(self) -> int:
        """How many more there may be."""
        return self.limits.most - len(self.members()) - len(self.starting)

    def next_nodes(self, count: int) -> list[Node]:
        """The nodes that would come next, as the scheduler would see them."""
        numbers = range(self._number, self._number + count)
        return [as_seen(self._node(number)) for number in numbers]

    def start(self, count: int) -> None:
        """Order nodes; they come when they have started."""
        for _ in range(count):
            node = self._node(self._number)
            self._number += 1
            self.starting[meta(node)["name"]] = node
            self._prices.ordered(node)
            at = self._run.elapsed + self.limits.start_seconds
            self._run.plan(at, partial(self._come, meta(node)["name"]))

    def fill(self) -> None:
        """The nodes that are there from the beginning."""
        for _ in range(self.limits.least):
            self._run.come(self._node(self._number))
            self._number += 1

    def _come(self, name: str) -> None:
        self._run.come(self.starting.pop(name))

    def _node(self, number: int) -> Json:
        return grouped_node(self._shape, number)


def grouped_node(shape: NodeShape, number: int) -> Json:
    """A node of a shape, with its group and its price."""
    node = shaped_node(shape, number)
    metadata = meta(node)
    metadata["labels"] = {**metadata["labels"], GROUP: shape.name}
    if shape.price:
        metadata["annotations"] = {**metadata["annotations"], PRICE: shape.price}
    return node


def as_seen(node: Json) -> Node:
    """A node as the scheduler has it."""
    found = decode_object(node, meta(node)["name"])
    assert isinstance(found, Node)
    return found
