"""Rows that are marked say the same as rows that are listed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.cluster.domain_rows import DomainRows
from moorage.cluster.masked_view import MaskedView
from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.testing import make_node

NAMES = tuple("abcdefghij")


def cluster() -> ClusterState:
    state = ClusterState()
    for number, name in enumerate(NAMES):
        state.add_node(make_node(name, labels={"zone": str(number % 3)}))
    return state


@given(
    marks=st.lists(st.booleans(), min_size=len(NAMES), max_size=len(NAMES)).filter(any),
    column=st.lists(st.integers(-(2**40), 2**40), min_size=len(NAMES), max_size=len(NAMES)),
)
def test_a_masked_view_equals_the_view_of_the_rows_it_marks(
    marks: list[bool], column: list[int]
) -> None:
    state, marked, values = cluster(), np.array(marks), np.array(column, np.int64)
    listed = NodeView(state).take(np.flatnonzero(marked))
    masked = MaskedView(state, marked, sum(marks))
    assert masked.bounds(values) == listed.bounds(values)
    assert len(masked) == len(listed)
    assert masked.names() == listed.names()
    assert masked.label("zone").codes.tolist() == listed.label("zone").codes.tolist()
    assert len(masked.whole) == len(NAMES)
    assert masked.take(np.array([0])).names() == listed.names()[:1]


def test_the_rows_of_every_domain_are_found() -> None:
    label = NodeView(cluster()).label("zone")
    rows = DomainRows(label.codes, len(label.vocabulary))
    for code in range(len(label.vocabulary)):
        assert rows.of(code).tolist() == np.flatnonzero(label.codes == code).tolist()
