"""Counts found by label pairs are those of a look at every pod, listed or in columns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_state
from moorage.cluster import pod_counts, row_counts
from moorage.cluster.pod_query import PodQuery, PodSelector
from moorage.cluster.view import NodeView
from moorage.model.labels import Requirement, Selector
from moorage.model.pod import Pod
from reference.objects import ZONE, make_node, make_pod

NODES = [f"n{number}" for number in range(6)]
KEYS, VALUES = ("app", "tier"), ("a", "b", "c")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
namespaces = st.sampled_from(("default", "other"))
requirements = st.builds(
    Requirement,
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn")),
    st.lists(st.sampled_from(VALUES), min_size=1, unique=True).map(tuple),
) | st.builds(Requirement, st.sampled_from(KEYS), st.sampled_from(("Exists", "DoesNotExist")))
selectors = st.builds(
    PodSelector,
    st.builds(Selector, st.lists(requirements, max_size=2).map(tuple), st.booleans()),
    st.none() | st.lists(namespaces, unique=True).map(tuple),
)
queries = st.builds(PodQuery, st.lists(selectors, max_size=2).map(tuple), st.booleans())
steps = st.lists(
    st.tuples(
        st.sampled_from(("pod", "pod", "pod", "leave", "node", "ask")),
        st.integers(0, 11),
        st.sampled_from(NODES),
        namespaces,
        labels,
    ),
    max_size=40,
)


@given(steps, st.lists(queries, min_size=1, max_size=5))
def test_counts_are_those_of_a_look_at_every_pod(
    walk: list[tuple[str, int, str, str, dict[str, str]]], asked: list[PodQuery]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_counts, "MOST_LISTED", 2)
        patch.setattr(pod_counts, "_FEWEST_QUERIES", 2)
        state = make_state([make_node(name, zone=name[1]) for name in NODES])
        there: dict[str, Pod] = {}
        for step, number, node, namespace, own in walk:
            name = f"p{number}"
            if step == "pod" and name not in there:
                pod = make_pod(name, namespace=namespace, labels=own, node=node)
                there[name] = pod
                state.add_pod(pod)
            elif step == "leave" and name in there:
                state.remove_pod(there.pop(name))
            elif step == "node":
                # The last row takes its place; then it comes back with its pods.
                state.remove_node(node)
                state.add_node(make_node(node, zone=str(number)))
            for query in asked if step == "ask" else asked[:1]:
                check(NodeView(state), query, there)
        for query in asked:
            check(NodeView(state), query, there)


def check(view: NodeView, query: PodQuery, pods: dict[str, Pod]) -> None:
    matching = [pod.spec.node_name for pod in pods.values() if query.matches(pod)]
    expected = [matching.count(name) for name in view.names()]
    assert view.pods_matching(query).tolist() == expected
    sums, label = view.pods_per_domain(query, ZONE), view.label(ZONE)
    by_zone = dict.fromkeys(range(len(label.vocabulary)), 0)
    for code, count in zip(label.codes.tolist(), expected, strict=True):
        by_zone[code] += count
    assert sums.sums.tolist() == list(by_zone.values())
    by_zone[0] = 0
    inside = sums.inside
    assert inside is not None or not any(by_zone.values())
    assert inside is None or inside.tolist() == list(by_zone.values())
