"""Every matrix and every score rebuilt from the ledger equals what was found at decision time."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from framework.building import make_profile
from ledger.recorded import Expected, check, decide
from moorage.engine.decisions import Bind
from moorage.ledger import Ledger, open_ledger
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies as given
from properties.events import ClusterEvents, picks
from properties.harness import effort, fresh_cycle
from properties.strategies import named

probes = st.one_of(given.incoming_pods, given.social_pods)


class EventsBetweenRecords(ClusterEvents):
    """All events, and pods of a few kinds that come again and again and are recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.ledger = Ledger(2**24, self.directory, now=lambda: 1_800_000_000.5)
        self.profile = make_profile(self.twin.state)
        self.twin.cycle.record(self.ledger.recorder)
        self.bodies: list[Pod] = []
        self.expected: list[Expected] = []
        self.turn = 0

    @initialize(
        bodies=st.lists(probes, min_size=2, max_size=3),
        nodes=st.tuples(*[given.nodes(name) for name in given.NODE_NAMES[:4]]),
    )
    def start_with_some_kinds_and_nodes(self, bodies: list[Pod], nodes: tuple[Node, ...]) -> None:
        self.bodies = bodies
        for node in nodes:
            self.twin.put_node(node)

    @rule(body=probes, pick=picks)
    def another_kind(self, body: Pod, pick: int) -> None:
        self.bodies[pick % len(self.bodies)] = body

    @precondition(ClusterEvents.has_nodes)
    @rule(pick=picks, copies=st.integers(1, 5))
    def place_replicas(self, pick: int, copies: int) -> None:
        for _ in range(copies):
            self.place(named(self.bodies[pick % len(self.bodies)], self.number()))

    def place(self, pod: Pod) -> None:
        plain = fresh_cycle(self.twin.state, self.twin.cycle)
        told, decision = decide(self.ledger, self.twin.cycle, plain, self.profile, pod)
        self.expected.append(told)
        if isinstance(decision, Bind):
            self.twin.assume(pod, decision.node_name)

    @invariant()
    def pods_keep_coming(self) -> None:
        if self.bodies and self.has_nodes():
            self.turn += 1
            for body in self.bodies[: self.turn % 3]:
                self.place(named(body, self.number()))

    @precondition(ClusterEvents.has_nodes)
    @rule(pick=picks)
    def ask_for_nobody(self, pick: int) -> None:
        """An attempt that does not end is not recorded, and spoils nothing."""
        pod = named(self.bodies[pick % len(self.bodies)], self.number())
        self.twin.cycle.choose(self.profile, pod)

    @rule()
    def end_the_chunk(self) -> None:
        self.ledger.recorder.complete()

    @rule()
    def read_back(self) -> None:
        assert len(self.ledger) == len(self.expected)
        for number, told in enumerate(self.expected, 1):
            check(self.ledger, number, told)

    def teardown(self) -> None:
        try:
            self.read_back()
            self.ledger.close()
            if self.expected:
                self.read_files()
        finally:
            shutil.rmtree(self.directory)

    def read_files(self) -> None:
        reader = open_ledger(self.directory)
        assert not reader.problems
        assert len(reader) == len(self.expected)
        for number, told in enumerate(self.expected, 1):
            check(reader, number, told)


TestMatricesAreRebuiltAfterAnyEvents = EventsBetweenRecords.TestCase
TestMatricesAreRebuiltAfterAnyEvents.settings = effort(35, 25)
