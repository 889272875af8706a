"""Slices for many nodes: one search counts for all of them, and passes over unwanted devices."""

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.view import NodeView
from moorage.framework.plugin import PreFilterResult
from moorage.model.devices import ResourceClaim, ResourceSlice
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.plugins.dynamic_resources import DynamicResources, pools
from moorage.plugins.dynamic_resources.search import DeviceSearch
from moorage.testing import cluster, make_node
from plugins.devices.device_objects import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    plugin,
    pod_with,
    request,
    slice_of,
)

SIDES = {"n0": "left", "n1": "left", "n2": "right", "n3": "right"}
POOLS = ("all", "left", "n0")
RED = f'device.attributes["{DRIVER}"].colour == "red"'
NEVER = 10**9

colours = st.sampled_from(["red", "blue", ""])
"""Without a colour the selector fails, but only where a search comes to the device."""
offers = st.fixed_dictionaries({pool: st.lists(colours, max_size=4) for pool in POOLS})
held = st.sets(st.tuples(st.sampled_from(POOLS), st.integers(0, 3)), max_size=6)
requests = st.sampled_from(
    [request(), request("r", RED), request("r", RED, count=2), request(count=3)]
)


def _slice(pool: str, wanted: Sequence[str]) -> ResourceSlice:
    devices = [
        device(f"d{place}", attributes={"colour": colour} if colour else {})
        for place, colour in enumerate(wanted)
    ]
    if pool == "all":
        return slice_of(pool, devices, pool=pool, allNodes=True)
    if pool == "left":
        expression = {"key": "side", "operator": "In", "values": ["left"]}
        selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return slice_of(pool, devices, pool=pool, nodeSelector=selector)
    return slice_of(pool, devices, node=pool)


def _claims(taken: set[tuple[str, int]]) -> list[ResourceClaim]:
    return [
        claim(f"held-{pool}-{place}", status=allocated((pool, f"d{place}")))
        for pool, place in sorted(taken)
    ]


def _nodes(*names: str) -> list[Node]:
    return [make_node(name, labels={"side": SIDES[name]}) for name in names]


def _answers(asked: DynamicResources, nodes: NodeView) -> dict[str, tuple[list[str], list[str]]]:
    """Why each node is refused, or what it would give."""
    pod = pod_with("wanted")
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    verdicts = asked.filter(pod, nodes, before.state)
    found = {}
    for place, name in enumerate(nodes.names()):
        reasons = [reason.text for reason in verdicts.reasons_of(place)]
        choice = (None if reasons else before.state.nodes.get(name)) or ()
        found[name] = (reasons, ["/".join(one.device.id) for picks in choice for one in picks])
    return found


def _alone(name: str, others: Sequence[ApiObject]) -> tuple[list[str], list[str]]:
    """The same of a node that has the cluster for itself, every device looked at."""
    state = cluster(_nodes(name), others=others)
    with patch.object(pools, "_MANY_DEVICES", NEVER):
        return _answers(plugin(state.listers), NodeView(state))[name]


@settings(max_examples=60, deadline=None)
@given(offers, st.lists(held, min_size=1, max_size=3), requests)
def test_nodes_with_shared_slices_answer_as_each_would_alone(
    offered: dict[str, list[str]], turns: Sequence[set[tuple[str, int]]], wanted: Json
) -> None:
    slices = [_slice(pool, colours) for pool, colours in offered.items()]
    fixed: list[ApiObject] = [device_class(), claim("wanted", wanted), *slices]
    state = cluster(_nodes(*SIDES), others=fixed)
    asked, known = plugin(state.listers), state.listers.of(ResourceClaim)
    with patch.object(pools, "_MANY_DEVICES", 0):
        for taken in turns:
            for one in [one for one in known if one.name.startswith("held")]:
                known.remove(one)
            for one in _claims(taken):
                known.put(one)
            found = _answers(asked, NodeView(state))
            expected = {name: _alone(name, [*fixed, *_claims(taken)]) for name in SIDES}
            assert found == expected


def test_nodes_that_reach_the_same_slices_are_searched_once() -> None:
    others = [device_class(), claim("wanted"), _slice("all", ["red"])]
    # Shareable devices have no looks, so nodes cannot be told to be alike by these.
    others.append(
        slice_of("more", [device("m", allowMultipleAllocations=True)], pool="more", allNodes=True)
    )
    state = cluster(_nodes(*SIDES), others=others)
    searched = []
    run = DeviceSearch.run

    def counted(search: DeviceSearch) -> object:
        searched.append(search)
        return run(search)

    with patch.object(DeviceSearch, "run", counted):
        found = _answers(plugin(state.listers), NodeView(state))
    assert [devices for _, devices in found.values()] == [[f"{DRIVER}/all/d0"]] * len(SIDES)
    assert len(searched) == 1


def test_devices_that_no_selector_wants_are_passed_over() -> None:
    wanted = request("r", RED)
    many = [device(f"d{place}", attributes={"colour": "blue"}) for place in range(70)]
    red = device("red", attributes={"colour": "red"})
    others = [
        device_class(),
        claim("wanted", wanted),
        slice_of("all", [*many, red], pool="all", allNodes=True),
    ]
    state = cluster(_nodes("n0"), others=others)
    asked, looked_at = plugin(state.listers), []
    available = DeviceSearch._available

    def counted(search: DeviceSearch, number: int, what: object, one: object) -> bool:
        looked_at.append(one)
        return available(search, number, what, one)  # type: ignore[arg-type]

    with patch.object(DeviceSearch, "_available", counted):
        found = _answers(asked, NodeView(state))
    assert found["n0"] == ([], [f"{DRIVER}/all/red"])
    assert len(looked_at) == 1
