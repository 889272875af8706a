"""The allocator against a naive one that tries every combination in order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cluster.view import NodeView
from moorage.framework.plugin import PreFilterResult
from moorage.model.devices import AllocationResult, ResourceClaim
from moorage.model.meta import Json
from moorage.model.quantity import parse_nano
from moorage.testing import cluster, make_node
from plugins.devices.device_objects import (
    DRIVER,
    allocated,
    claim,
    device,
    device_class,
    first_available,
    plugin,
    pod_with,
    request,
    slice_of,
)
from reference.devices import (
    PlainClaim,
    PlainDevice,
    PlainRequest,
    World,
    first_allocation,
)

COLOURS = ("red", "green", "blue")
NODE = make_node("n")

colour_sets = st.frozensets(st.sampled_from(COLOURS), min_size=1)
requests = st.builds(PlainRequest, st.integers(1, 2), colour_sets, amount=st.integers(1, 3))
claims = st.builds(
    PlainClaim,
    st.lists(st.lists(requests, min_size=1, max_size=2).map(tuple), min_size=1, max_size=2).map(
        tuple
    ),
    alike=st.booleans(),
    unlike=st.booleans(),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    shared = st.none() | st.none() | st.integers(1, 4)
    devices = [
        PlainDevice(f"d{i}", draw(st.sampled_from(COLOURS)), draw(st.integers(0, 2)), draw(shared))
        for i in range(draw(st.integers(1, 5)))
    ]
    whole = [d.name for d in devices if d.shared is None]
    used = set(draw(st.lists(st.sampled_from(whole), max_size=2))) if whole else set()
    return World(devices, draw(st.integers(0, 6)), used)


def _device(plain: PlainDevice) -> Json:
    fields: dict[str, object] = {"attributes": {"colour": plain.colour}}
    if plain.draws:
        fields["consumesCounters"] = [
            {"counterSet": "all", "counters": {"slots": {"value": str(plain.draws)}}}
        ]
    if plain.shared is not None:
        fields["allowMultipleAllocations"] = True
        policy = {"default": "1", "validRange": {"min": "1"}}
        fields["capacity"] = {"units": {"value": str(plain.shared), "requestPolicy": policy}}
    return device(plain.name, **fields)


def _request(plain: PlainRequest, name: str, *, asks_amount: bool) -> Json:
    colours = ", ".join(f'"{colour}"' for colour in sorted(plain.colours))
    extra: dict[str, object] = {}
    if asks_amount:
        extra["capacity"] = {"requests": {"units": str(plain.amount)}}
    selector = f'device.attributes["{DRIVER}"].colour in [{colours}]'
    return request(name, selector, count=plain.count, **extra)


def _claim(plain: PlainClaim, number: int, *, asks_amount: bool) -> ResourceClaim:
    asked = []
    for place, alternatives in enumerate(plain.requests):
        made = [
            _request(sub, f"s{i}", asks_amount=asks_amount) for i, sub in enumerate(alternatives)
        ]
        if len(made) == 1:
            asked.append({**made[0], "name": f"r{place}"})
        else:
            asked.append(first_available(f"r{place}", *made))
    constraints = []
    if plain.alike:
        constraints.append({"matchAttribute": f"{DRIVER}/colour"})
    if plain.unlike:
        constraints.append({"distinctAttribute": f"{DRIVER}/colour"})
    return claim(f"c{number}", *asked, constraints=constraints)


def allocate(world: World, plain: Sequence[PlainClaim]) -> list[AllocationResult] | None:
    """The same question, put to the plugin as API objects."""
    asks_amount = all(d.shared is not None for d in world.devices)
    wanted = [_claim(c, i, asks_amount=asks_amount) for i, c in enumerate(plain)]
    counters = {"name": "all", "counters": {"slots": {"value": str(world.counter)}}}
    # Counters are the whole pool's, whichever node their slice is for.
    bringer = "n" if len(world.devices) % 2 else "other"
    state = cluster(
        [NODE],
        others=[
            device_class(),
            slice_of("counters", [], node=bringer, pool="n", count=2, sharedCounters=[counters]),
            slice_of("devices", map(_device, world.devices), node="n", count=2),
            *wanted,
            claim("held", status=allocated(*(("n", name) for name in sorted(world.used)))),
        ],
    )
    pod = pod_with(*(c.name for c in wanted))
    asked = plugin(state.listers)
    nodes = NodeView(state)
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    verdicts = asked.filter(pod, nodes, before.state)
    if verdicts.rejected[0]:
        assert [r.text for r in verdicts.reasons_of(0)] == ["cannot allocate all claims"]
        return None
    assert asked.reserve(pod, "n") is None
    return [before.state.allocations[i] for i in range(len(wanted))]


def _amounts(world: World, plain: Sequence[PlainClaim]) -> Sequence[PlainClaim]:
    """Without amounts in the requests a share takes the default, one unit."""
    if all(d.shared is not None for d in world.devices):
        return plain
    return [
        replace(
            c,
            requests=tuple(
                tuple(PlainRequest(sub.count, sub.colours) for sub in alternatives)
                for alternatives in c.requests
            ),
        )
        for c in plain
    ]


@settings(max_examples=200, deadline=None)
@given(worlds(), st.lists(claims, min_size=1, max_size=2))
def test_the_first_solution_in_order_is_the_one_found(
    world: World, plain: list[PlainClaim]
) -> None:
    plain = list(_amounts(world, plain))
    expected = first_allocation(world, plain)
    found = allocate(world, plain)
    names = found and tuple(tuple(r.device for r in a.devices.results) for a in found)
    assert names == expected


@settings(max_examples=200, deadline=None)
@given(worlds(), st.lists(claims, min_size=1, max_size=3))
def test_nothing_is_given_away_twice(world: World, plain: list[PlainClaim]) -> None:
    plain = list(_amounts(world, plain))
    found = allocate(world, plain)
    if found is None:
        return
    by_name = {d.name: d for d in world.devices}
    results = [result for allocation in found for result in allocation.devices.results]
    counts = Counter(result.device for result in results)
    for name, count in counts.items():
        shared = by_name[name].shared
        if shared is None:
            assert count == 1
            assert name not in world.used
        else:
            taken = sum(
                parse_nano(r.consumed_capacity["units"]) for r in results if r.device == name
            )
            assert taken <= shared * 10**9
    if any(by_name[name].draws for name in counts):
        drawing = set(counts) | world.used
        assert sum(by_name[name].draws for name in drawing) <= world.counter
