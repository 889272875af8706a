"""What nodes said to a demand is kept; whoever asks for the first time must hear the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.state import ClusterState
from moorage.cluster.view import NodeView
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES
from moorage.framework.plugin import Handle, PreFilterResult
from moorage.model.devices import ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.plugins.dynamic_resources.demands import Demand
from moorage.plugins.dynamic_resources.extended_resources import DeviceBackedResources
from moorage.testing import cluster, make_node, make_pod
from plugins.devices.device_objects import (
    allocated,
    claim,
    device,
    device_class,
    plugin,
    pod_with,
    request,
    slice_of,
)

NAMES = ("n0", "n1", "n2", "n3")
DEVICES = ("d0", "d1")
GPU = "vendor.example/gpu"

Answer = tuple[list[str], list[str], list[str]]
"""Why a node is refused, the devices it would give, and what is asked of it."""

steps = st.one_of(
    st.tuples(st.just("device"), st.sampled_from(NAMES), st.sampled_from(DEVICES)),
    st.just(("device", "left", "l0")),
    st.tuples(st.just("node"), st.sampled_from(NAMES), st.sampled_from(["gone", "left", "right"])),
    st.tuples(st.just("offer"), st.sampled_from(NAMES), st.sampled_from(["0", "1"])),
    st.tuples(st.just("slice"), st.sampled_from(NAMES), st.sampled_from(["1", "2"])),
)
pods = st.sampled_from(["one", "two", "extended", "both", "elsewhere"])


def _node(name: str, side: str = "right", offers: str = "0") -> Node:
    return make_node(name, labels={"side": side}, allocatable={"cpu": "8", GPU: offers})


def _slice(name: str, count: str = "2") -> ResourceSlice:
    return slice_of(name, [device(one) for one in DEVICES[: int(count)]], node=name)


def _for_the_left() -> ResourceSlice:
    expression = {"key": "side", "operator": "In", "values": ["left"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return slice_of("left", [device("l0")], pool="left", nodeSelector=selector)


@dataclass
class Scene:
    """A cluster and the objects it was made of, which are there to make it again."""

    state: ClusterState
    nodes: dict[str, Node]
    others: dict[str, ApiObject] = field(default_factory=dict)

    @classmethod
    def made(cls) -> "Scene":
        nodes = {name: _node(name) for name in NAMES}
        scene = cls(cluster(nodes.values()), nodes)
        elsewhere = allocated(("n1", "d0"), nodeSelector=_only("n1"))
        for one in (
            device_class(extendedResourceName=GPU),
            claim("one"),
            claim("two", request(count=2)),
            claim("elsewhere", status=elsewhere),
            *map(_slice, NAMES),
        ):
            scene.put(one)
        return scene

    def put(self, one: ApiObject) -> None:
        self.others[f"{type(one).__name__}/{one.name}"] = one
        self.state.listers.of(type(one)).put(one)

    def take(self, one: ApiObject) -> None:
        del self.others[f"{type(one).__name__}/{one.name}"]
        self.state.listers.of(type(one)).remove(one)

    def step(self, what: str, name: str, how: str) -> None:
        known = self.nodes.get(name)
        if what == "device":
            held = claim(f"held-{name}-{how}", status=allocated((name, how)))
            self.take(held) if f"ResourceClaim/{held.name}" in self.others else self.put(held)
        elif what == "slice":
            self.put(_slice(name, how))
        elif how == "gone":
            if known is not None:
                self.state.remove_node(name)
                del self.nodes[name]
        else:
            side, offers = (how, "0") if what == "node" else ("right", how)
            self.nodes[name] = _node(name, side, offers)
            self.state.add_node(self.nodes[name])

    def again(self) -> ClusterState:
        return cluster(self.nodes.values(), others=self.others.values())


def _only(node: str) -> dict[str, object]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _pod(kind: str) -> Pod:
    if kind not in ("extended", "both"):
        names = ("one", "elsewhere") if kind == "elsewhere" else (kind,)
        return pod_with(*names)
    asked = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    references = [{"name": "c", "resourceClaimName": "one"}] if kind == "both" else []
    return make_pod(
        spec={"containers": [{"name": "c", "resources": asked}], "resourceClaims": references}
    )


def _answers(asked: DynamicResources, pod: Pod, nodes: NodeView) -> dict[str, Answer]:
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    state = before.state
    verdicts = asked.filter(pod, nodes, state)
    found: dict[str, Answer] = {}
    for place, name in enumerate(nodes.names()):
        reasons = [reason.text for reason in verdicts.reasons_of(place)]
        devices: list[str] = []
        requests: list[str] = []
        choice = None if reasons else state.nodes.get(name)
        if choice is not None:
            devices = ["/".join(one.device.id) for picks in choice for one in picks]
            requests = [
                one.name
                for wanted in state.claims_for(state.node_claim_on(name))
                for one in wanted.spec.devices.requests
            ]
        found[name] = (reasons, devices, requests)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.lists(steps, max_size=2), pods, st.booleans()), min_size=2, max_size=8),
)
def test_a_demand_is_answered_as_if_it_were_the_first(
    left_has_more: bool, turns: Sequence[tuple[list[tuple[str, str, str]], str, bool]]
) -> None:
    scene = Scene.made()
    if left_has_more:
        scene.put(_for_the_left())
    asked = plugin(scene.state.listers)
    for changes, kind, partly in turns:
        for change in changes:
            scene.step(*change)
        nodes = NodeView(scene.state)
        if partly:
            nodes = nodes.take(np.arange(0, len(nodes), 2))
        again = scene.again()
        expected = _answers(plugin(again.listers), _pod(kind), NodeView(again))
        found = _answers(asked, _pod(kind), nodes)
        assert found == {name: expected[name] for name in nodes.names()}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(steps, max_size=2), min_size=2, max_size=8))
def test_devices_are_counted_for_scores_as_if_for_the_first_time(
    turns: Sequence[list[tuple[str, str, str]]],
) -> None:
    scene = Scene.made()
    scene.put(_for_the_left())
    kept = DeviceBackedResources(Handle(scene.state.listers, DEFAULT_FEATURE_GATES))
    for changes in turns:
        for change in changes:
            scene.step(*change)
        again = scene.again()
        fresh = DeviceBackedResources(Handle(again.listers, DEFAULT_FEATURE_GATES))
        assert _counted(kept, scene.state) == _counted(fresh, again)


def _counted(backed: DeviceBackedResources, state: ClusterState) -> dict[str, tuple[int, int]]:
    """How many devices of each node are in use, and how many it has."""
    nodes = NodeView(state)
    nothing = np.zeros(len(nodes), np.int64)
    used, total = backed.with_devices(GPU, nodes, nothing, nothing)
    return dict(zip(nodes.names(), zip(used.tolist(), total.tolist(), strict=True), strict=True))


def test_devices_of_few_nodes_change_hands_and_only_these_nodes_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene.made()
    asked = plugin(scene.state.listers)
    nodes = NodeView(scene.state)
    questions: list[str] = []
    known = Demand.known

    def noted(demand: Demand, node: Node) -> object:
        questions.append(node.name)
        return known(demand, node)

    monkeypatch.setattr(Demand, "known", noted)
    for _ in range(2):  # what nobody asks for twice is not kept
        _answers(asked, _pod("one"), nodes)
    questions.clear()
    scene.step("device", "n2", "d0")
    found = _answers(asked, _pod("one"), nodes)
    assert questions == ["n2"]
    assert found["n2"][1] == ["gpu.example.com/n2/d1"]


def test_a_choice_stays_what_it_was_when_the_device_is_taken_meanwhile() -> None:
    scene = Scene.made()
    asked = plugin(scene.state.listers)
    nodes = NodeView(scene.state)
    states = []
    for name in ("first", "second", "kept", "late"):
        if name == "late":
            scene.step("device", "n3", "d0")
        pod = pod_with("one", name=name)
        before = asked.pre_filter(pod, nodes)
        assert isinstance(before, PreFilterResult)
        asked.filter(pod, nodes, before.state)
        states.append(before.state)
    choices = [state.nodes.get("n3") for state in states]
    devices = [None if one is None else one[0][0].device.id[2] for one in choices]
    assert devices == ["d0", "d0", "d0", "d1"]


def test_the_tracker_follows_claims_one_by_one_as_it_does_from_the_start() -> None:
    scene = Scene.made()
    asked = plugin(scene.state.listers).tracker
    asked.refresh()
    for change in (("device", "n0", "d0"), ("device", "n1", "d1"), ("device", "n0", "d0")):
        scene.step(*change)
        asked.refresh()
        fresh = plugin(scene.again().listers).tracker
        fresh.refresh()
        assert asked.usage.dedicated == fresh.usage.dedicated
        for one in scene.others.values():
            if isinstance(one, ResourceClaim):
                assert asked.get("default", one.name) is one
    assert asked.get("default", "held-n0-d0") is None
