"""InterPodAffinity: what is kept of pods' company equals working it out anew, after any events."""

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from moorage.cluster import node_table, pod_counts
from moorage.cluster.columns import Bools
from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.stamps import Aspect
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.framework.scores import Patches
from moorage.model.affinity import Affinity
from moorage.model.labels import EVERYTHING
from moorage.model.pod import Pod
from moorage.plugins.inter_pod_affinity import filtering, scoring
from moorage.plugins.inter_pod_affinity.kept import KeptCompany
from properties.harness import effort
from properties.strategies import named
from reference.objects import (
    HOSTNAME,
    ZONE,
    away,
    make_namespace,
    make_node,
    make_pod,
    near,
    pod_term,
    pod_terms,
    selector,
)

HARD_WEIGHT = 3
NAMES = ("a", "b", "c", "d", "e")
WEB, DB = {"app": "web"}, {"app": "db"}
WEBS, DBS = selector(WEB), selector(DB)

KINDS = (
    make_pod("plain", labels=WEB),
    make_pod("together", labels=WEB, affinity=near(pod_term(ZONE, WEBS))),
    make_pod("follower", labels=DB, affinity=near(pod_term(ZONE, WEBS), pod_term(HOSTNAME, WEBS))),
    make_pod("alone", labels=WEB, affinity=away(pod_term(HOSTNAME, WEBS))),
    make_pod("apart", labels=DB, affinity=away(pod_term(ZONE, DBS), pod_term(HOSTNAME, WEBS))),
    make_pod(
        "wisher",
        labels=WEB,
        affinity=Affinity(
            pod_affinity=pod_terms([], [(7, pod_term(ZONE, DBS)), (2, pod_term(HOSTNAME, WEBS))]),
            pod_anti_affinity=pod_terms([], [(5, pod_term(HOSTNAME, DBS))]),
        ),
    ),
    make_pod(
        "guest",
        labels=DB,
        affinity=away(pod_term(ZONE, WEBS, namespace_selector=selector({"team": "red"}))),
    ),
)

names = st.sampled_from(NAMES)
kinds = st.sampled_from(KINDS)
zones = st.sampled_from(("x", "y", None))


class CompanyUnderChange(RuleBasedStateMachine):
    """A small cluster, and pods of some kinds that ask about their company now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.kept = KeptCompany(HARD_WEIGHT)
        self.guests: list[Pod] = []
        self.made = 0
        self.turn = 0
        self.told: dict[tuple[str, str], tuple[Patches, int, list[int]]] = {}
        """By kind, the patches, how many there were, and the scores or refusals of then."""
        self.given: list[tuple[Bools, list[bool]]] = []
        """Refusals that somebody may have kept, and what they were."""

    @initialize(zones=st.tuples(*[st.sampled_from(("x", "y"))] * 3))
    def start_with_some_nodes(self, zones: tuple[str, ...]) -> None:
        for name, zone in zip(NAMES, zones, strict=False):
            self.put_a_node(name, zone)

    @rule(name=names, zone=zones)
    def put_a_node(self, name: str, zone: str | None) -> None:
        node = make_node(name, zone=zone)
        self.state.add_node(node)

    @rule(name=names)
    def remove_a_node(self, name: str) -> None:
        if name in self.state.nodes.row_of and len(self.state) > 1:
            self.state.remove_node(name)

    @rule(kind=kinds, places=st.lists(names, min_size=1, max_size=3))
    def pods_come(self, kind: Pod, places: list[str]) -> None:
        for place in places:
            self.made += 1
            pod = named(kind, self.made)
            self.state.assume(pod, place)
            self.guests.append(pod)

    @rule(pick=st.integers(0, 99), count=st.integers(1, 3))
    def pods_go(self, pick: int, count: int) -> None:
        for _ in range(min(count, len(self.guests))):
            self.state.forget(self.guests.pop(pick % len(self.guests)))

    @rule(team=st.sampled_from(("red", "blue")))
    def a_namespace_changes(self, team: str) -> None:
        namespace = make_namespace("default", team=team)
        self.state.listers.of(type(namespace)).put(namespace)

    @rule()
    def label_columns_are_given_up(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(node_table, "_MOST_LABELS", 0)
            self.state.nodes.trim_labels()

    @rule()
    def queries_are_given_up(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pod_counts, "_FEWEST_QUERIES", 1)
            for _ in range(4 + 2 * self.state.sizes()["pods"]):
                self.made += 1
                elsewhere = PodSelector(EVERYTHING, (f"other-{self.made}",))
                self.state.counts.matching(PodQuery((elsewhere,)))

    @invariant()
    def kept_equals_fresh(self) -> None:
        # Not every kind every time: what is kept has to catch up with several changes.
        for _ in range(3):
            self.turn += 1
            pod = KINDS[self.turn % len(KINDS)]
            if self.turn % 5 and len(self.state):
                nodes = NodeView(self.state)
                self.refusals_agree(pod, nodes)
                self.scores_agree(pod, nodes)

    def refusals_agree(self, pod: Pod, nodes: NodeView) -> None:
        kept, fresh = self.kept.state(pod, nodes), filtering.count(pod, nodes)
        if kept is None:
            assert fresh.irrelevant
            return
        assert kept.irrelevant == fresh.irrelevant
        assert kept.refused is not None
        assert fresh.refused is None
        expected = filtering.judge(fresh, pod, nodes).rejected
        assert np.array_equal(kept.refused, expected)
        self.given = [*self.given[-3:], (kept.refused, expected.tolist())]
        assert all(array.tolist() == then for array, then in self.given)
        assert kept.patches is not None
        self.patches_leave_nothing_out((pod.name, "refusals"), kept.patches, kept.refused)
        assert np.array_equal(filtering.refused(fresh, pod, nodes), expected)

    def scores_agree(self, pod: Pod, nodes: NodeView) -> None:
        kept, fresh = self.kept.weights(pod, nodes), scoring.weigh(pod, nodes, HARD_WEIGHT)
        assert (kept is None) == (fresh is None)
        if kept is not None and fresh is not None:
            assert kept.raw.tolist() == fresh.raw.tolist()
            if kept.table is not None and kept.codes is not None:
                assert kept.table[kept.codes].tolist() == fresh.raw.tolist()
                assert kept.labelled == nodes.stamps.latest(Aspect.LABELS)
            assert (kept.table is None) is (kept.patches is not None)
            if kept.patches is not None:
                self.patches_leave_nothing_out((pod.name, "scores"), kept.patches, kept.raw)

    def patches_leave_nothing_out(
        self, what: tuple[str, str], patches: Patches, now: NDArray[Any]
    ) -> None:
        """What was told the last time, with the patches since then, is what is told now."""
        known, seen, values = self.told.get(what, (None, 0, []))
        if patches is known:
            for row, value in zip(patches[seen::2], patches[seen + 1 :: 2], strict=True):
                values[row] = value
            assert values == now.tolist()
        self.told[what] = (patches, len(patches), now.tolist())


TestKeptCompanyEqualsFreshAfterAnyEvents = CompanyUnderChange.TestCase
TestKeptCompanyEqualsFreshAfterAnyEvents.settings = effort(60, 30)
