"""Nodes that look alike share a search; each must still get what a search of its own would find."""

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.view import NodeView
from moorage.framework.plugin import PreFilterResult
from moorage.model.devices import ResourceClaim, ResourceSlice
from moorage.model.meta import Json
from moorage.plugins.dynamic_resources import DynamicResources
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
from reference.devices import PlainClaim, PlainDevice, PlainRequest, World, first_allocation

COLOURS = ("red", "blue")
DEVICES = 3
SHARED = "shared"
LEFT_ONLY = "s0"

colour_sets = st.frozensets(st.sampled_from(COLOURS), min_size=1)
requests = st.builds(PlainRequest, st.integers(1, 2), colour_sets)
claims = st.builds(
    PlainClaim,
    st.lists(requests.map(lambda one: (one,)), min_size=1, max_size=2).map(tuple),
    alike=st.booleans(),
)


@dataclass
class Shelf:
    """The devices of one node."""

    plain: World
    tainted: set[str]
    left: bool
    """On which side the node stands: some devices are for one side."""

    def devices(self) -> list[Json]:
        return [_device(one, tainted=one.name in self.tainted) for one in self.plain.devices]

    def expected(self, claim: PlainClaim, shared: World) -> tuple[str, ...] | None:
        reached = [one for one in shared.devices if self.left or one.name != LEFT_ONLY]
        # To a claim without tolerations a tainted device is as good as taken.
        used = self.plain.used | self.tainted | shared.used
        found = first_allocation(World([*self.plain.devices, *reached], 0, used), [claim])
        return None if found is None else found[0]


@st.composite
def shelves(draw: st.DrawFn) -> Shelf:
    # Few colours, and mostly nothing special: most nodes of a cluster look like another one.
    names = [f"d{i}" for i in range(DEVICES)]
    devices = [PlainDevice(name, draw(st.sampled_from(COLOURS))) for name in names]
    some = st.lists(st.sampled_from(names), max_size=2).map(set)
    rarely = st.sampled_from([False, False, False, True])
    tainted = draw(some) if draw(rarely) else set()
    return Shelf(World(devices, 0, draw(some)), tainted, draw(st.booleans()))


@st.composite
def shared_devices(draw: st.DrawFn) -> World:
    """Devices that several nodes reach; mostly there are none."""
    some = draw(st.sampled_from([(), (), (LEFT_ONLY, "s1")]))
    return World([PlainDevice(name, draw(st.sampled_from(COLOURS))) for name in some], 0)


_numbers = itertools.count()


def _device(plain: PlainDevice, *, tainted: bool = False, **fields: object) -> Json:
    taints = [{"key": "broken", "effect": "NoSchedule"}] if tainted else []
    # No two devices are the same: but nobody asks for their numbers.
    attributes = {"colour": plain.colour, "number": next(_numbers)}
    return device(plain.name, attributes=attributes, taints=taints, **fields)


def _shared_slice(world: World) -> ResourceSlice:
    expression = {"key": "side", "operator": "In", "values": ["left"]}
    left = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    devices = [
        _device(one, **({"nodeSelector": left} if one.name == LEFT_ONLY else {"allNodes": True}))
        for one in world.devices
    ]
    return slice_of("shared", devices, pool=SHARED, perDeviceNodeSelection=True)


def _claim(plain: PlainClaim, number: int) -> ResourceClaim:
    asked = []
    for place, (one,) in enumerate(plain.requests):
        colours = ", ".join(f'"{colour}"' for colour in sorted(one.colours))
        selector = f'device.attributes["{DRIVER}"].colour in [{colours}]'
        asked.append(request(f"r{place}", selector, count=one.count))
    alike = [{"matchAttribute": f"{DRIVER}/colour"}] if plain.alike else []
    return claim(f"c{number}", *asked, constraints=alike)


def _choices(
    asked: DynamicResources, number: int, nodes: NodeView
) -> dict[str, tuple[str, ...] | None]:
    """What each node would give, by the names of devices; what the first can give is taken."""
    pod = pod_with(f"c{number}", name=f"pod-{number}")
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    rejected = asked.filter(pod, nodes, before.state).rejected
    found: dict[str, tuple[str, ...] | None] = {}
    for place, name in enumerate(nodes.names()):
        choice = before.state.nodes.get(name)
        assert (choice is None) == bool(rejected[place])
        found[name] = None if choice is None else tuple(c.device.device.name for c in choice[0])
    taken = next((name for name, devices in found.items() if devices is not None), None)
    if taken is not None:
        assert asked.reserve(pod, taken) is None
        results = before.state.allocations[0].devices.results
        assert {result.pool for result in results} <= {taken, SHARED}
        assert tuple(result.device for result in results) == found[taken]
    return found


def _check(stock: list[Shelf], shared: World, wanted: list[PlainClaim]) -> None:
    """Claims come one after the other, and take what the first node can give."""
    by_name = {f"n{i}": shelf for i, shelf in enumerate(stock)}
    used = [(node, name) for node, shelf in by_name.items() for name in sorted(shelf.plain.used)]
    state = cluster(
        [
            make_node(name, labels={"side": "left" if shelf.left else "right"})
            for name, shelf in by_name.items()
        ],
        others=[
            device_class(),
            *(slice_of(name, shelf.devices(), node=name) for name, shelf in by_name.items()),
            *([_shared_slice(shared)] if shared.devices else []),
            *(_claim(one, number) for number, one in enumerate(wanted)),
            claim("held", status=allocated(*used)),
        ],
    )
    asked = plugin(state.listers)
    nodes = NodeView(state)
    for number, one in enumerate(wanted):
        found = _choices(asked, number, nodes)
        assert found == {name: shelf.expected(one, shared) for name, shelf in by_name.items()}
        name, taken = next(((n, d) for n, d in found.items() if d is not None), ("n0", ()))
        at_node = {device for device in taken if device.startswith("d")}
        by_name[name].plain.used |= at_node
        shared.used |= set(taken) - at_node


@settings(max_examples=150, deadline=None)
@given(
    st.lists(shelves(), min_size=2, max_size=5),
    shared_devices(),
    st.lists(claims, min_size=1, max_size=5),
)
def test_every_node_gives_what_a_search_of_its_own_finds(
    stock: list[Shelf], shared: World, wanted: list[PlainClaim]
) -> None:
    _check(stock, shared, wanted)


ONE_RED = PlainClaim(((PlainRequest(1, frozenset({"red"})),),))


def _shelf(
    *colours: str, used: tuple[str, ...] = (), tainted: tuple[str, ...] = (), left: bool = False
) -> Shelf:
    devices = [PlainDevice(f"d{i}", colour) for i, colour in enumerate(colours)]
    return Shelf(World(devices, 0, set(used)), set(tainted), left)


def test_a_taint_makes_a_difference() -> None:
    _check([_shelf("red", "red"), _shelf("red", "red", tainted=("d0",))], World([], 0), [ONE_RED])


def test_a_device_in_use_makes_a_difference() -> None:
    _check([_shelf("red", "red"), _shelf("red", "red", used=("d0",))], World([], 0), [ONE_RED])


def test_an_attribute_makes_a_difference() -> None:
    _check([_shelf("red", "blue"), _shelf("blue", "red")], World([], 0), [ONE_RED])


def test_devices_that_choose_their_nodes_make_a_difference() -> None:
    shared = World([PlainDevice(LEFT_ONLY, "red"), PlainDevice("s1", "red")], 0)
    _check([_shelf("blue", left=True), _shelf("blue"), _shelf("blue")], shared, [ONE_RED])


@pytest.mark.parametrize("constraint", ["matchAttribute", "distinctAttribute"])
def test_an_attribute_that_only_a_constraint_reads_makes_a_difference(constraint: str) -> None:
    colours = {"n0": ("red", "blue"), "n1": ("red", "red"), "n2": ("blue", "red")}
    # Distinct values are asked of different requests, so there are two.
    asked_for = [request("one"), request("two")]
    state = cluster(
        [make_node(name) for name in colours],
        others=[
            device_class(),
            *(slice_of(name, _shelf(*colours[name]).devices(), node=name) for name in colours),
            claim("c0", *asked_for, constraints=[{constraint: f"{DRIVER}/colour"}]),
        ],
    )
    found = _choices(plugin(state.listers), 0, NodeView(state))
    alike = constraint == "matchAttribute"
    assert {name: choice is not None for name, choice in found.items()} == {
        name: (len(set(colours[name])) == 1) == alike for name in colours
    }
