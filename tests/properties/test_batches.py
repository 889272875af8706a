"""Pods that come in batches of twins are decided as if each had come alone."""

from collections.abc import Hashable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from framework.building import make_cycle, make_profile
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind
from moorage.errors import PluginError
from moorage.framework.kept_rankings import Rankings
from moorage.framework.plugin import Handle
from moorage.framework.profile import Profile
from moorage.framework.twins import are_twins
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.node_name import NodeName
from moorage.testing import make_node, make_pod
from plugins.devices.device_objects import device, device_class, slice_of
from properties import strategies
from properties.harness import DEEP

bodies = st.one_of(strategies.incoming_pods, strategies.social_pods)
clusters = st.tuples(*[strategies.nodes(name) for name in strategies.NODE_NAMES[:6]])
labels = st.none() | st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from("ab"))
batches = st.lists(
    st.tuples(st.integers(0, 2), st.lists(labels, min_size=1, max_size=6)), min_size=1, max_size=5
)


def twin(body: Pod, number: int) -> Pod:
    identity = msgspec.structs.replace(
        body.metadata,
        name=f"p{number}",
        uid=f"u{number}",
        resource_version=str(number),
        creation_timestamp=f"2026-01-01T00:00:{number % 60:02}Z",
    )
    return msgspec.structs.replace(body, metadata=identity)


def labelled(pod: Pod, wanted: dict[str, str]) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, labels=wanted)
    return msgspec.structs.replace(pod, metadata=metadata)


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
    nodes: tuple[Node, ...],
    kinds: tuple[Pod, Pod, Pod],
    members: list[tuple[int, list[dict[str, str] | None]]],
) -> None:
    together, unbatched, alone = (Alone(nodes, reuse=how) for how in (True, True, False))
    assert unbatched.cycle.fast_lane is not None
    unbatched.cycle.fast_lane.rankings = Rankings(unbatched.state, batches=False)
    number = 0
    for kind, others in members:
        for other in others:
            number += 1
            pod = twin(kinds[kind], number)
            pod = pod if other is None else labelled(pod, other)
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
        if plugin.keyed_by_spec:
            stranger = msgspec.structs.replace(first, metadata=other.metadata)
            assert plugin.pod_key(first) == plugin.pod_key(stranger), plugin.name
            assert plugin.idle_for(first) == plugin.idle_for(stranger), plugin.name
    if are_twins(twin(one, 1), twin(other, 2)):
        assert (one.spec, one.labels, one.status) == (other.spec, other.labels, other.status)


class Wondering(NodeName):
    """Remembers whose keys it was asked for."""

    name = "Wondering"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.asked: list[str] = []

    def pod_key(self, pod: Pod) -> Hashable:
        self.asked.append(pod.name)
        return super().pod_key(pod)


class WonderingAboutSpecs(Wondering):
    """Promises for itself what `Wondering` only inherits."""

    name = "WonderingAboutSpecs"
    keyed_by_spec = True


def wondering(kind: type[Wondering]) -> tuple[Alone, Wondering]:
    scheduler = Alone((make_node("n1"), make_node("n2")), reuse=True)
    document = {"plugins": {"filter": {"enabled": [{"name": kind.name}]}}}
    scheduler.profile = make_profile(scheduler.state, document, [kind])
    plugin = scheduler.profile.plugins[kind.name]
    assert isinstance(plugin, Wondering)
    return scheduler, plugin


def test_a_batch_is_looked_up_once() -> None:
    """One question for a key for a batch, however many pods it has."""
    scheduler, plugin = wondering(Wondering)
    body = make_pod("body", cpu="1m")
    for number in range(5):
        scheduler.place(twin(body, number))
    assert plugin.asked == ["p0"]
    other = msgspec.structs.replace(body, spec=msgspec.structs.replace(body.spec, priority=7))
    scheduler.place(twin(other, 9))
    assert plugin.asked == ["p0", "p9"]


def test_labels_part_a_batch_unless_all_keys_follow_from_specs() -> None:
    body = make_pod("body", cpu="1m")
    for kind, asked in ((Wondering, ["p0", "p1", "p2"]), (WonderingAboutSpecs, ["p0"])):
        scheduler, plugin = wondering(kind)
        for number in range(3):
            scheduler.place(labelled(twin(body, number), {"number": str(number)}))
        assert plugin.asked == asked


def test_an_object_that_comes_between_twins_parts_them() -> None:
    """A device class that stands for a resource changes the keys of pods that ask for it."""
    full = make_node("full", allocatable={"example.com/gpu": "2"}, cpu="2")
    empty = make_node("empty", cpu="64")
    stands_in = device_class("gpu", extendedResourceName="example.com/gpu")
    short, plain = Alone((full, empty), reuse=True), Alone((full, empty), reuse=False)
    body = make_pod("body", cpu="1", requests={"example.com/gpu": "1"})
    for number, node in enumerate(("full", "empty")):
        for scheduler in (short, plain):
            found = scheduler.place(twin(body, number))
            assert isinstance(found, Bind)
            assert found.node_name == node
            for obj in (stands_in, slice_of("s", [device("d")], node="empty")):
                scheduler.state.listers.of(type(obj)).put(obj)


@given(bodies)
def test_what_a_twin_takes_over_is_what_it_would_work_out(body: Pod) -> None:
    first, second, alone = (twin(body, number) for number in (1, 2, 3))
    second.take_over(first.derived())
    assert second.derived() == alone.derived()
    assert second.derived().keys() == second.__dict__.keys()
