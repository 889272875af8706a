"""Domains and sums of spread constraints found by looking at few nodes are those of all nodes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_state
from moorage.cluster.view import NodeView
from moorage.model.labels import Requirement, Selector
from moorage.plugins.topology_spread import constraints
from moorage.plugins.topology_spread.constraints import SpreadConstraint, domains_of_labelled
from reference.objects import ZONE, make_node, make_pod


@given(st.lists(st.integers(1, 5), max_size=12), st.integers(1, 4))
def test_a_look_at_few_nodes_finds_every_domain(codes: list[int], few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constraints, "_FEW", few)
        found = domains_of_labelled(np.array(codes, np.int32), 6)
    assert found.tolist() == [code in codes for code in range(6)]


nodes = st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 3))


@given(st.lists(nodes, min_size=1, max_size=8))
def test_sums_count_the_pods_of_the_nodes_that_take_part(
    nodes: list[tuple[str, bool, int]],
) -> None:
    state = make_state([make_node(f"n{i}", zone=zone) for i, (zone, _, _) in enumerate(nodes)])
    for row, (_, _, pods) in enumerate(nodes):
        for number in range(pods):
            state.assume(make_pod(f"p{row}-{number}", labels={"app": "web"}), f"n{row}")
    web = Selector((Requirement("app", "In", ("web",)),))
    view = NodeView(state)
    label = view.label(ZONE)

    taking_part = np.array([takes_part for _, takes_part, _ in nodes])
    sums = SpreadConstraint(1, ZONE, web).sums("default", view, label.codes, taking_part)

    expected: Counter[str | None] = Counter()
    for zone, takes_part, pods in nodes:
        expected[zone] += pods if takes_part else 0
    assert sums.tolist() == [expected[zone] for zone in label.vocabulary.values]
