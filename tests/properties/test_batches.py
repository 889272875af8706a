"""Pods that come in batches of twins are decided as if each had come alone."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.building import make_cycle, make_profile
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.kept_rankings import Rankings
from moorage.framework.profile import Profile
from moorage.framework.twins import are_twins
from moorage.model.node import Node
from moorage.model.pod import Pod
from properties import strategies
from properties.harness import DEEP

bodies = st.one_of(strategies.incoming_pods, strategies.social_pods)
clusters = st.tuples(*[strategies.nodes(name) for name in strategies.NODE_NAMES[:6]])
batches = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=5)


def twin(body: Pod, number: int) -> Pod:
    identity = msgspec.structs.replace(
        body.metadata,
        name=f"p{number}",
        uid=f"u{number}",
        resource_version=str(number),
        creation_timestamp=f"2026-01-01T00:00:{number % 60:02}Z",
    )
    return msgspec.structs.replace(body, metadata=identity)


class Alone:
    """A scheduler that has never heard of rankings: every pod is asked about afresh."""

    def __init__(self, nodes: tuple[Node, ...], *, reuse: bool) -> None:
        self.state = ClusterState()
        for node in nodes:
            self.state.add_node(node)
        self.cycle: Cycle = make_cycle(self.state, reuse=reuse)
        self.profile: Profile = make_profile(self.state)

    def place(self, pod: Pod) -> object:
        try:
            decision = self.cycle.choose(self.profile, pod)
            found = decision or self.cycle.attempt(self.profile, pod)[0]
        except PluginError as error:
            return str(error)
        if isinstance(found, Bind):
            self.state.assume(pod, found.node_name)
        return found


@settings(max_examples=40 * (30 if DEEP else 1), deadline=None)
@given(clusters, st.tuples(bodies, bodies, bodies), batches)
def test_batches_equal_singles(
    nodes: tuple[Node, ...], kinds: tuple[Pod, Pod, Pod], sizes: list[tuple[int, int]]
) -> None:
    together, unbatched, alone = (Alone(nodes, reuse=how) for how in (True, True, False))
    assert unbatched.cycle.fast_lane is not None
    unbatched.cycle.fast_lane.rankings = Rankings(unbatched.state, batches=False)
    number = 0
    for kind, size in sizes:
        for _ in range(size):
            number += 1
            pod = twin(kinds[kind], number)
            decision = alone.place(pod)
            assert together.place(pod) == decision
            assert unbatched.place(pod) == decision
    assert together.cycle.fast_lane is not None
    assert together.cycle.fast_lane.taken == unbatched.cycle.fast_lane.taken


@given(bodies, bodies)
def test_twins_have_equal_keys_and_others_are_no_twins(one: Pod, other: Pod) -> None:
    first, second = twin(one, 1), twin(one, 2)
    assert are_twins(first, second)
    profile = make_profile(ClusterState())
    for plugin in profile.plugins.values():
        assert plugin.pod_key(first) == plugin.pod_key(second), plugin.name
        assert plugin.idle_for(first) == plugin.idle_for(second), plugin.name
    if are_twins(twin(one, 1), twin(other, 2)):
        assert (one.spec, one.labels, one.status) == (other.spec, other.labels, other.status)


def test_a_batch_is_looked_up_once() -> None:
    """Counts the questions for keys: one for a batch, however many pods it has."""
    scheduler = Alone((), reuse=True)
    asked: list[str] = []

    class Asking:
        def key(self, pod: Pod) -> str:
            asked.append(pod.name)
            return "same"

    rankings = Rankings(scheduler.state)
    roles = Asking()
    body = Pod()
    for number in range(5):
        assert rankings._key(roles, twin(body, number)) == "same"  # type: ignore[arg-type]
    assert asked == ["p0"]
    other = msgspec.structs.replace(body, spec=msgspec.structs.replace(body.spec, priority=7))
    rankings._key(roles, twin(other, 9))  # type: ignore[arg-type]
    assert asked == ["p0", "p9"]
