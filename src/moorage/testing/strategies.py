"""Hypothesis strategies for nodes and pods; the only module that needs Hypothesis.

from hypothesis import given
from moorage.testing.strategies import nodes, pods

@given(nodes=nodes(), pod=pods())
def test_my_plugin(nodes, pod): ...

Objects are those of `random_objects`: small vocabularies, so that things meet and conflict.
"""

from random import Random

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing.random_objects import random_node, random_pod

_SEEDS = st.integers(0, 2**32 - 1)


def node(name: str = "node") -> SearchStrategy[Node]:
    """One node."""
    return _SEEDS.map(lambda seed: random_node(Random(seed), name))


def nodes(min_size: int = 1, max_size: int = 8) -> SearchStrategy[list[Node]]:
    """Nodes of different names: node-0, node-1, ..."""
    seeds = st.lists(_SEEDS, min_size=min_size, max_size=max_size)
    return seeds.map(
        lambda found: [random_node(Random(seed), f"node-{i}") for i, seed in enumerate(found)]
    )


def pods(name: str = "pod", node_name: str = "") -> SearchStrategy[Pod]:
    """A pod that waits, or one on a node."""
    return _SEEDS.map(lambda seed: random_pod(Random(seed), name, node_name))
