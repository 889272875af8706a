"""Whole clusters drawn at once, for questions that need no history."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from moorage.model.node_selector import NodeAffinitySpec
from moorage.model.pod import TopologySpreadConstraint
from properties import strategies as given
from properties.harness import Twin
from properties.strategies import NODE_NAMES, named
from reference.objects import HOSTNAME, ZONE, node_affinity
from reference.scheduler import NaiveConfig


@st.composite
def clusters(
    draw: DrawFn, *, plain: bool = False, nominations: bool = True, most_nodes: int = 6
) -> Twin:
    """A cluster; `plain` keeps out everything that looks at other pods."""
    twin = Twin()
    for name in NODE_NAMES[: draw(st.integers(2, most_nodes))]:
        twin.put_node(draw(given.nodes(name)))
    where = st.sampled_from(sorted(twin.naive.nodes))
    serial = 0
    for body in draw(st.lists(given.plain_pods if plain else given.pods, max_size=10)):
        serial += 1
        twin.add_pod(named(body, serial, draw(where)))
    for obj in draw(st.lists(given.other_objects, max_size=4)):
        twin.put(obj)
    if nominations:
        for body in draw(
            st.lists(given.plain_incoming_pods if plain else given.incoming_pods, max_size=2)
        ):
            serial += 1
            twin.nominate(named(body, serial, nominated=(node := draw(where))), node)
    return twin


@st.composite
def crowded_clusters(draw: DrawFn, *, plain: bool = False, nominations: bool = True) -> Twin:
    """A cluster of few nodes and many pods, where a newcomer has to push somebody aside."""
    twin = Twin()
    for name in NODE_NAMES[: draw(st.integers(1, 3))]:
        twin.put_node(draw(given.open_nodes(name)))
    where = st.sampled_from(sorted(twin.naive.nodes))
    bodies = given.plain_pods if plain else given.pods
    waiting = given.plain_demanding_pods if plain else given.demanding_pods
    serial = 0
    for body in draw(st.lists(bodies, min_size=4, max_size=12)):
        serial += 1
        twin.add_pod(named(body, serial, draw(where)))
    for obj in draw(st.lists(given.other_objects, max_size=4)):
        twin.put(obj)
    if nominations:
        for body in draw(st.lists(waiting, max_size=1)):
            serial += 1
            twin.nominate(named(body, serial, nominated=(node := draw(where))), node)
    return twin


@st.composite
def sociable_clusters(draw: DrawFn) -> Twin:
    """A cluster with room for everybody, where only company matters."""
    twin = Twin()
    for name in NODE_NAMES[: draw(st.integers(2, 4))]:
        twin.put_node(draw(given.roomy_nodes(name)))
    where = st.sampled_from(sorted(twin.naive.nodes))
    serial = 0
    for body in draw(st.lists(given.pods, min_size=2, max_size=4)):
        for _ in range(draw(st.integers(1, 3))):
            serial += 1
            twin.add_pod(named(body, serial, draw(where)))
    for obj in draw(st.lists(given.other_objects, max_size=2)):
        twin.put(obj)
    return twin


def added_affinities() -> st.SearchStrategy[NodeAffinitySpec | None]:
    wishes = st.tuples(st.sampled_from([1, 30]), st.sampled_from(given.WISHED_NODES))
    terms = st.lists(st.sampled_from(given.WISHED_NODES), min_size=1, max_size=2)
    return st.one_of(
        st.none(),
        st.builds(node_affinity, st.one_of(st.none(), terms), st.lists(wishes, max_size=1)),
    )


def default_constraints() -> st.SearchStrategy[tuple[TopologySpreadConstraint, ...]]:
    constraint = st.builds(
        TopologySpreadConstraint,
        max_skew=st.integers(1, 2),
        topology_key=st.sampled_from([ZONE, HOSTNAME, "disk"]),
        when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    )
    return st.lists(
        constraint, max_size=2, unique_by=lambda c: (c.topology_key, c.when_unsatisfiable)
    ).map(tuple)


@st.composite
def configs(draw: DrawFn) -> NaiveConfig:
    """Arguments for every plugin that takes some."""
    strategy = draw(
        st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
    )
    resources = ("cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "pods")
    fit = draw(
        st.lists(
            st.tuples(st.sampled_from(resources), st.integers(1, 5)),
            min_size=1,
            max_size=4,
            unique_by=lambda spec: spec[0],
        )
    )
    shape: tuple[tuple[int, int], ...] = ()
    if strategy == "RequestedToCapacityRatio":
        corners = draw(st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True))
        shape = tuple((x, draw(st.integers(0, 10))) for x in sorted(corners))
    balanced = draw(st.lists(st.sampled_from(resources), min_size=1, max_size=4, unique=True))
    return NaiveConfig(
        added_affinity=draw(added_affinities()),
        ignored_resources=tuple(draw(given.some(["example.com/gpu"], 1))),
        ignored_groups=tuple(draw(given.some(["example.com"], 1))),
        strategy=strategy,
        fit_resources=tuple(fit),
        shape=shape,
        balanced=tuple(balanced),
        spread_defaults=draw(st.one_of(st.none(), default_constraints())),
        hard_weight=draw(st.sampled_from([0, 1, 50])),
        ignore_others=draw(st.booleans()),
    )
