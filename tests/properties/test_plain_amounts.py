"""Scores that are worked out in floats, from columns that are kept, equal those in integers.

One node without memory makes the plugins count in integers, on all nodes.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from framework.building import make_profile, make_state
from moorage.cluster.derived import EXACT
from moorage.cluster.view import NodeView
from moorage.model.meta import Json
from moorage.model.pod import Pod
from properties.harness import effort
from reference.objects import make_node, make_pod

SCORERS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")

amounts = st.one_of(
    st.sampled_from([0, 1, 2, 3, 99, 100, 101, EXACT - 1, EXACT, 2**62]),
    st.integers(0, 200),
    st.integers(0, EXACT - 1),
)
pairs = st.tuples(amounts, amounts)
strategies = st.tuples(
    st.sampled_from(["LeastAllocated", "MostAllocated"]),
    st.sampled_from([(1, 1), (1, 3), (100, 7)]),
)


def pod(name: str, wanted: tuple[int, int]) -> Pod:
    cpu, memory = wanted
    return make_pod(name, cpu=f"{cpu}m" if cpu else None, memory=str(memory) if memory else None)


def configuration(kind: str, weights: tuple[int, int]) -> Json:
    resources = [
        {"name": name, "weight": weight}
        for name, weight in zip(("cpu", "memory"), weights, strict=True)
    ]
    args = {"scoringStrategy": {"type": kind, "resources": resources}}
    return {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


@effort(150)
@given(
    nodes=st.lists(pairs, min_size=1, max_size=5),
    strategy=strategies,
    pods=st.lists(st.tuples(pairs, st.integers(0, 4)), max_size=6),
)
def test_kept_floats_score_as_integers_do(
    nodes: list[tuple[int, int]],
    strategy: tuple[str, tuple[int, int]],
    pods: list[tuple[tuple[int, int], int]],
) -> None:
    made = [
        make_node(f"n{i}", cpu=f"{cpu}m", memory=str(memory))
        for i, (cpu, memory) in enumerate(nodes)
    ]
    state = make_state(made)
    in_integers = make_state([*made, make_node("no-memory", memory="0")])
    config = configuration(*strategy)
    profile, other_profile = make_profile(state, config), make_profile(in_integers, config)
    for number, (wanted, place) in enumerate(pods):
        incoming = pod(f"p{number}", wanted)
        for name in SCORERS:
            other: Any = other_profile.plugins[name]
            expected = other.score(incoming, NodeView(in_integers), None).tolist()[:-1]
            check(profile.plugins[name], incoming, NodeView(state), expected)
        for cluster in (state, in_integers):
            cluster.assume(incoming, f"n{place % len(nodes)}")


def check(plugin: Any, incoming: Pod, nodes: NodeView, expected: list[int]) -> None:
    assert plugin.score(incoming, nodes, None).tolist() == expected
    rows = [plugin.score_row(incoming, nodes, row, None) for row in range(len(nodes))]
    assert rows == expected
