"""Room for volumes: all nodes at once and node by node, the same pods have to go."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from framework.building import make_cycle, make_profile, make_state
from moorage.cluster.state import ClusterState
from moorage.framework.plugin import Candidate
from moorage.framework.status import Status
from moorage.model.pod import Pod
from moorage.plugins.default_preemption.columns import applies, select_victims_everywhere
from moorage.plugins.default_preemption.victims import select_victims
from moorage.testing import make_node, make_pod
from plugins.volumes.storage_objects import DRIVER, claim, csi_node, storage_class, uses, volume
from properties.harness import effort

NODES = ("a", "b")
CLAIMS = ("c0", "c1", "c2", "c3", "c4")
VOLUMES = st.lists(st.sampled_from(CLAIMS), max_size=2, unique=True).map(lambda names: uses(*names))
PORTS = st.sampled_from(((), (80,), (80, 81)))


@st.composite
def full_of_volumes(draw: DrawFn) -> ClusterState:
    """A few nodes whose drivers attach few volumes, with pods that have some."""
    state = make_state([make_node(name, cpu="4") for name in NODES])
    put(state, storage_class(provisioner=DRIVER))
    for name in CLAIMS:
        put(state, claim(name, bound_to=f"pv-{name}", phase="Bound"))
        put(state, volume(f"pv-{name}", csi={"driver": DRIVER, "volumeHandle": name}))
    for name in NODES:
        put(state, csi_node(name, draw(st.integers(1, 3))))
    for number in range(draw(st.integers(2, 6))):
        state.add_pod(
            drawn_pod(
                draw,
                f"guest-{number}",
                draw(st.sampled_from((0, 5, 50))),
                node=draw(st.sampled_from(NODES)),
                started=f"2024-01-01T00:00:{number:02}Z",
            )
        )
    return state


def put(state: ClusterState, obj: Any) -> None:
    state.listers.of(type(obj)).put(obj)


def drawn_pod(
    draw: DrawFn, name: str, priority: int, *, node: str = "", started: str | None = None
) -> Pod:
    volumes = [{"name": f"v{i}", **source} for i, source in enumerate(draw(VOLUMES))]
    ports = [{"containerPort": port, "hostPort": port} for port in draw(PORTS)]
    resources = {"requests": {"cpu": draw(st.sampled_from(("500m", "2")))}}
    container = {"name": "main", "resources": resources, "ports": ports}
    return make_pod(
        name,
        priority=priority,
        node_name=node,
        spec={"volumes": volumes, "containers": [container]},
        status={"startTime": started} if started else None,
    )


@st.composite
def newcomers(draw: DrawFn) -> Pod:
    return drawn_pod(draw, "newcomer", 30)


@effort(200)
@given(full_of_volumes(), newcomers())
def test_all_nodes_at_once_and_node_by_node_the_same_pods_leave_with_their_volumes(
    state: ClusterState, pod: Pod
) -> None:
    attempt = make_cycle(state).filter(make_profile(state), pod)
    if attempt.outcome is None or attempt.outcome.any_feasible:
        return
    assert applies(attempt)
    rows = np.flatnonzero(attempt.diagnosis.resolvable_rows())
    together = select_victims_everywhere(attempt, rows, [])
    one_by_one = [select_victims(attempt, int(row), []) for row in rows]
    assert list(together) == [found for found in one_by_one if isinstance(found, Candidate)]
    assert together.refusals == [found for found in one_by_one if isinstance(found, Status)]


def test_only_the_pod_whose_volume_is_in_the_way_has_to_go() -> None:
    state = make_state([make_node("a", cpu="4")])
    put(state, storage_class(provisioner=DRIVER))
    put(state, csi_node("a", 1))
    for name in ("mine", "theirs"):
        put(state, claim(name, bound_to=f"pv-{name}", phase="Bound"))
        put(state, volume(f"pv-{name}", csi={"driver": DRIVER, "volumeHandle": name}))
    state.add_pod(make_pod("harmless", node_name="a"))
    for name, node, priority in (("theirs", "a", 0), ("mine", "", 10)):
        volumes = [{"name": "disk", **source} for source in uses(name)]
        pod = make_pod(name, node_name=node, priority=priority, spec={"volumes": volumes})
        if node:
            state.add_pod(pod)
    decision, _ = make_cycle(state).decide(make_profile(state), pod)
    assert [victim.name for victim in getattr(decision, "victims", ())] == ["theirs"]
