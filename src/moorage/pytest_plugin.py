"""For pytest, which loads this where Moorage is installed: fixtures for tests of plugins.

Nothing else imports it, and it imports nothing of Moorage before a fixture is asked for.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from moorage.cluster.state import ClusterState
    from moorage.model.node import Node
    from moorage.model.pod import Pod
    from moorage.testing.virtual import VirtualScheduler


@pytest.fixture
def make_pod() -> "Callable[..., Pod]":
    """`make_pod("ship", cpu="500m", labels={...})`: see `moorage.testing.make_pod`."""
    from moorage.testing import make_pod

    return make_pod


@pytest.fixture
def make_node() -> "Callable[..., Node]":
    """`make_node("quay", zone="north", cpu="8")`: see `moorage.testing.make_node`."""
    from moorage.testing import make_node

    return make_node


@pytest.fixture
def cluster() -> "Callable[..., ClusterState]":
    """`cluster(nodes, pods, others)`: a cluster state to ask a plugin about."""
    from moorage.testing import cluster

    return cluster


@pytest.fixture
def scheduler() -> "Iterator[Callable[..., VirtualScheduler]]":
    """`scheduler(MyPlugin, args={...})`: the real engine in virtual time.

    The test fails if a plugin did anything wrong, unless it has looked and cleared `faults`.
    """
    from moorage.testing.virtual import VirtualScheduler

    made: list[VirtualScheduler] = []

    def start(*plugins: Any, **options: Any) -> VirtualScheduler:
        made.append(VirtualScheduler(*plugins, **options))
        return made[-1]

    yield start
    for one in made:
        one.close()
    faults = [fault.message for one in made for fault in one.faults]
    assert not faults, "\n".join(faults)


@pytest.fixture
def assert_placed() -> "Callable[..., None]":
    """`assert_placed(scheduler, pod, node)`: is the pod bound, and to this node if one is named?"""

    def placed(scheduler: "VirtualScheduler", pod: "Pod | str", node: "Node | str" = "") -> None:
        __tracebackhide__ = True
        found = scheduler.node_of(pod)
        shown = pod if isinstance(pod, str) else pod.key
        wanted = node if isinstance(node, str) else node.name
        if found is None:
            pytest.fail(f"pod {shown} has no node: {scheduler.message_of(pod) or 'nobody tried'}")
        if wanted and found != wanted:
            pytest.fail(f"pod {shown} is on {found}, not on {wanted}")

    return placed
