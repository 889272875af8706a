"""After any events every column equals what the objects say, computed from scratch."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from moorage.cluster.view import NodeView
from moorage.model.node import ContainerImage, Node
from moorage.model.pod import Pod
from properties import strategies as given
from properties.columns import LABEL_KEYS, ColumnChecks, all_read_only
from properties.events import ClusterEvents, picks
from properties.harness import effort
from properties.strategies import named
from reference.objects import ZONE, make_node


class EventsOnColumns(ClusterEvents):
    """All events; nodes may disagree about the size of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = ColumnChecks(self.twin)

    @rule(pick=picks, images=given.image_lists_of_any_size)
    def change_image_sizes(self, pick: int, images: tuple[ContainerImage, ...]) -> None:
        if self.has_nodes():
            self.change_status(pick, images=images)

    @rule(key=st.sampled_from(LABEL_KEYS))
    def ask_for_a_label(self, key: str) -> None:
        NodeView(self.twin.state).label(key)

    @invariant()
    def every_column_agrees_with_the_objects(self) -> None:
        self.checks.check()
        assert all_read_only(NodeView(self.twin.state))


class EventsOnManyNodes(ClusterEvents):
    """The same around the first capacity of 64 rows, which must grow without losing anything."""

    def __init__(self) -> None:
        super().__init__()
        self.checks = ColumnChecks(self.twin)

    @initialize(data=st.data(), bodies=st.lists(given.pods, min_size=3, max_size=6))
    def start_with_nearly_64_nodes(self, data: Any, bodies: list[Pod]) -> None:
        for i in range(61):
            self.twin.put_node(make_node(f"m{i}", zone=f"z{i % 7}", pods=i + 1))
        for body in bodies:
            where = f"m{data.draw(st.integers(0, 60))}"
            self.twin.add_pod(named(body, self.number(), where))
        self.checks.check()

    @rule(nodes=st.tuples(*[given.nodes(name) for name in given.NODE_NAMES]))
    def put_eight_nodes(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self.twin.put_node(node)

    @rule(first=st.integers(0, 50), count=st.integers(1, 10))
    def remove_a_run_of_nodes(self, first: int, count: int) -> None:
        for i in range(first, first + count):
            if f"m{i}" in self.twin.naive.nodes:
                self.twin.remove_node(f"m{i}")

    @rule(count=st.integers(1, 60), start=st.integers(0, 3))
    def give_nodes_many_values_of_a_label(self, count: int, start: int) -> None:
        for i in range(count):
            labels = {"disk": f"value-{start}-{i}", ZONE: f"z{i % 11}"}
            self.twin.put_node(make_node(f"m{i}", labels=labels))

    @invariant()
    def every_column_agrees_with_the_objects(self) -> None:
        self.checks.check()


TestColumnsAgreeWithTheObjectsAfterAnyEvents = EventsOnColumns.TestCase
TestColumnsAgreeWithTheObjectsAfterAnyEvents.settings = effort(60, 30)

TestColumnsOfManyNodesAgreeWithTheObjectsAfterAnyEvents = EventsOnManyNodes.TestCase
TestColumnsOfManyNodesAgreeWithTheObjectsAfterAnyEvents.settings = effort(20, 15)
