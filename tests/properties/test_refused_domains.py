"""Rows of refused domains that PodTopologySpread keeps are those that the table stands for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.plugins.topology_spread.filtering import RefusedRows
from moorage.testing import make_node

ZONES = ["a", "b", "c", None]
KEY = "topology.kubernetes.io/zone"

steps = st.lists(
    st.tuples(
        st.sampled_from(["label", "remove", "ask", "ask"]),
        st.integers(0, 5),
        st.sampled_from(ZONES),
        st.integers(0, 31),
    ),
    min_size=1,
    max_size=40,
)


@given(steps)
def test_kept_rows_are_the_tables_rows(walk: list[tuple[str, int, str | None, int]]) -> None:
    state, rows = ClusterState(), RefusedRows()
    for step, number, zone, bits in walk:
        name = f"n{number}"
        if step == "label":
            state.add_node(make_node(name, zone=zone))
        elif step == "remove":
            if name in state.nodes.row_of:
                state.remove_node(name)
        else:
            nodes = NodeView(state)
            label = nodes.label(KEY)
            table = np.array([bool(bits >> code & 1) for code in range(len(label.vocabulary))])
            expected = [bool(table[code]) for code in label.codes.tolist()]
            assert rows.find(table, KEY, nodes).tolist() == expected
            some = np.arange(len(nodes))[::2]
            assert rows.find(table, KEY, nodes.take(some)).tolist() == expected[::2]
