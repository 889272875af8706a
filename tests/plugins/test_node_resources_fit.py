"""NodeResourcesFit: does the node have what the pod asks for, and how full would it be?"""

from typing import Any

import pytest

from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.config.feature_gates import EffectiveVersion, FeatureGates
from moorage.engine.decisions import Bind, Unschedulable
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.framework.status import FURTHER, Code
from moorage.model.devices import DeviceClass, DeviceClassSpec
from moorage.model.meta import Json, ObjectMeta
from moorage.model.node import Node
from moorage.model.pod import (
    Container,
    Pod,
    ResourceRequirements,
)
from moorage.plugins.node_resources_fit import NodeResourcesFit
from plugins.tables import (
    FITS,
    FilterCase,
    HintCase,
    ScoreCase,
    asked,
    check_filter,
    check_hint,
    check_score,
    hints,
    raw,
    registered,
    table,
)
from reference.objects import (
    make_node,
    make_pod,
)

ASSIGNED, NODE, A = EventResource.ASSIGNED_POD, EventResource.NODE, ActionType
CPU, MEMORY, GPUS_SHORT = "Insufficient cpu", "Insufficient memory", "Insufficient example.com/gpu"
N = [make_node("n", cpu="4", memory="4Gi")]
BUSY = [make_pod("there", node="n", cpu="3", memory="1Gi")]


@table(
    FilterCase("empty node", make_pod("p", cpu="4", memory="4Gi"), N, {"n": FITS}),
    FilterCase("exactly what is left", make_pod("p", cpu="1", memory="3Gi"), N, {"n": FITS}, BUSY),
    FilterCase("too little cpu", make_pod("p", cpu="1001m"), N, {"n": CPU}, BUSY),
    FilterCase(
        "too little of two",
        make_pod("p", cpu="2", memory="4Gi"),
        N,
        {"n": f"{CPU}, {MEMORY}"},
        BUSY,
    ),
    FilterCase("asks for nothing", make_pod("p"), N, {"n": FITS}, BUSY),
    FilterCase(
        "no place for another pod",
        make_pod("p"),
        [make_node("n", pods=1)],
        {"n": "Too many pods"},
        BUSY,
    ),
    FilterCase(
        "no such device", make_pod("p", requests={"example.com/gpu": 1}), N, {"n": GPUS_SHORT}
    ),
    FilterCase("overhead counts", make_pod("p", cpu="3", overhead={"cpu": "2"}), N, {"n": CPU}),
    FilterCase(
        "each node for itself",
        make_pod("p", cpu="2"),
        [make_node("n"), make_node("m"), make_node("small", cpu="1")],
        {"n": CPU, "m": FITS, "small": CPU},
        BUSY,
    ),
)
def test_nodes_with_too_little_left_are_refused(case: FilterCase) -> None:
    check_filter(NodeResourcesFit, case)


TWO = [make_node("empty", cpu="4", memory="4Gi"), make_node("n", cpu="4", memory="4Gi")]
HALF = [make_pod("there", node="n", cpu="2", memory="2Gi")]


@table(
    ScoreCase(
        "the emptier the better",
        make_pod("p", cpu="1", memory="1Gi"),
        TWO,
        {"empty": 75, "n": 25},
        HALF,
    ),
    ScoreCase("full", make_pod("p", cpu="2", memory="2Gi"), TWO, {"empty": 50, "n": 0}, HALF),
)
def test_nodes_are_scored_by_what_is_left(case: ScoreCase) -> None:
    check_score(NodeResourcesFit, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeResourcesFit) == [
        (ASSIGNED, A.DELETE | A.UPDATE_POD_SCALE_DOWN, True),
        (EventResource.TARGET_POD, A.UPDATE_POD_SCALE_DOWN, False),
        (NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE, True),
        (EventResource.DEVICE_CLASS, A.ADD | A.UPDATE, True),
    ]


GPUS: dict[str, Any] = {"example.com__gpu": 4}


def test_a_request_larger_than_the_whole_node_cannot_be_cured_by_eviction() -> None:
    state = make_state(
        [make_node("full"), make_node("small", cpu="1")],
        [make_pod("there", node="full", cpu="3", priority=0)],
    )
    pod = make_pod("p", cpu="2", priority=10)
    result = asked(state, pod, only("NodeResourcesFit"))
    assert [refused and refused[1].code for refused in result.first.values()] == [
        Code.UNSCHEDULABLE.value,
        Code.UNRESOLVABLE.value,
    ]
    decision, _ = make_cycle(state).decide(make_profile(state), pod)
    assert isinstance(decision, Unschedulable)
    assert decision.nominated_node == "full"


def test_one_incurable_shortage_makes_the_node_incurable_and_all_are_named() -> None:
    state = make_state(
        [make_node("n", memory="1Gi", pods=1)], [make_pod("there", node="n", cpu="3")]
    )
    result = asked(state, make_pod("p", cpu="2", memory="2Gi"), only("NodeResourcesFit"))
    assert result.first["n"] == (
        "NodeResourcesFit",
        (
            Code.UNRESOLVABLE.value,
            ("Too many pods", "Insufficient cpu", "Insufficient memory"),
        ),
    )


def test_a_pod_that_asks_for_nothing_needs_only_a_place() -> None:
    state = make_state([make_node("n", pods=2)], [make_pod("there", node="n", cpu="9")])
    assert asked(state, make_pod("p"), only("NodeResourcesFit")).first == {"n": None}


FIT = only("NodeResourcesFit")


def test_containers_without_requests_are_scored_with_100m_and_200mi() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    assert raw(nodes, make_pod("p"), FIT) == [90]
    two = make_pod("p", containers=[Container(name="a"), Container(name="b")])
    assert raw(nodes, two, FIT) == [80]
    assert raw(nodes, make_pod("p"), FIT, [make_pod("there", node="n")]) == [80]


def test_fit_scores_containers_even_if_the_pod_level_says_otherwise() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    pod = make_pod("p", pod_level={"cpu": "500m", "memory": str(1000 * 1024**2)})
    assert raw(nodes, pod, FIT) == [90], "100m and 200Mi of the container, not the pod's 500m"
    result = asked(make_state(nodes, [make_pod("there", node="n", cpu="600m")]), pod, FIT)
    assert result.first["n"] is not None, "filtering counts the pod's 500m"


def test_pods_on_nodes_count_for_their_pod_level_requests_when_others_are_scored() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    there = make_pod("there", node="n", pod_level={"cpu": "500m", "memory": str(1000 * 1024**2)})
    assert raw(nodes, make_pod("p"), FIT, [there]) == [40]


def resources(strategy: str, *names: str, shape: Any = None) -> Json:
    scoring: Json = {"type": strategy, "resources": [{"name": n, "weight": 1} for n in names]}
    if shape is not None:
        scoring["requestedToCapacityRatio"] = {
            "shape": [{"utilization": x, "score": y} for x, y in shape]
        }
    args = {"scoringStrategy": scoring}
    return only("NodeResourcesFit") | {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("LeastAllocated", (66 + 0) // 2), ("MostAllocated", (33 + 100) // 2)],
)
def test_least_and_most_allocated_cut_at_every_step(strategy: str, expected: int) -> None:
    nodes = [make_node("n", cpu="3", memory="1Gi")]
    pod = make_pod("p", cpu="1", memory="1Gi")
    assert raw(nodes, pod, resources(strategy, "cpu", "memory")) == [expected]


def test_the_ratio_strategy_rounds_and_leaves_out_what_scores_zero() -> None:
    nodes = [make_node("n", cpu="4", memory="4Gi")]
    pod = make_pod("p", cpu="1", memory="3Gi")
    ratio = "RequestedToCapacityRatio"
    # cpu 25 % and memory 75 %; on this line they score 25 and 75.
    line = [(0, 0), (100, 10)]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=line)) == [50]
    # On this one cpu scores 0, so only memory counts.
    late = [(50, 0), (100, 10)]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=late)) == [50]
    # 33 and 100 are 66.5 in the mean: rounded up, not cut.
    pod = make_pod("p", cpu="1", memory="4Gi")
    nodes = [make_node("n", cpu="3", memory="4Gi")]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=line)) == [67]


def test_an_over_committed_resource_scores_as_if_it_were_full() -> None:
    nodes = [make_node("n", cpu="1", memory="4Gi")]
    there = [make_pod("there", node="n", memory="1Gi"), make_pod("more", node="n", memory="1Gi")]
    # Both count for 100m of cpu that they do not ask for, so scoring sees more than there is.
    pod = make_pod("p", cpu="900m", memory="2Gi")
    assert raw(nodes, pod, resources("LeastAllocated", "cpu"), there) == [0]
    assert raw(nodes, pod, resources("MostAllocated", "cpu"), there) == [100]
    shape = [(0, 0), (99, 0), (100, 7)]
    assert raw(nodes, pod, resources("RequestedToCapacityRatio", "cpu", shape=shape), there) == [70]


def test_a_falling_line_is_cut_towards_zero_between_its_corners() -> None:
    nodes = [make_node("n", cpu="3")]
    pod = make_pod("p", cpu="1")
    # From 100 down to 0 over 100 %: at 33 % 100 - 33.
    falling = [(0, 10), (100, 0)]
    assert raw(nodes, pod, resources("RequestedToCapacityRatio", "cpu", shape=falling)) == [67]


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_resources_a_node_lacks_or_the_pod_does_not_want_take_no_part(strategy: str) -> None:
    nodes = [make_node("n", cpu="4", **GPUS)]
    pod = make_pod("p", cpu="2")
    document = resources(strategy, "cpu", "example.com/gpu", "ephemeral-storage", "pods")
    assert raw(nodes, pod, document) == [50]


def test_sidecars_count_beside_containers_and_init_containers_by_the_largest() -> None:
    def container(name: str, cpu: str, *, sidecar: bool = False) -> Container:
        return Container(
            name=name,
            resources=ResourceRequirements(requests={"cpu": cpu}),
            restart_policy="Always" if sidecar else None,
        )

    pod = make_pod(
        "p",
        containers=[container("main", "1")],
        init_containers=[
            container("early", "3"),
            container("proxy", "1", sidecar=True),
            container("late", "2"),
        ],
    )
    # Running: 1 + 1. Starting: 3 alone, then 2 beside the proxy.
    assert pod.requests.incoming["cpu"] == 3000
    for cpu, fits in (("3", True), ("2999m", False)):
        state = make_state([make_node("n", cpu=cpu)])
        assert (asked(state, pod, FIT).first["n"] is None) is fits


MANY = {f"example.com/r{i:02}": "1" for i in range(70)}


def wanting(count: int) -> Pod:
    return make_pod("p", requests=dict(list(MANY.items())[:count]))


def offering(count: int) -> dict[str, Any]:
    return {f"example.com__r{i:02}": "1" for i in range(count)}


def test_a_pod_may_ask_for_forty_extended_resources() -> None:
    state = make_state([make_node("a"), make_node("b", **offering(40))])
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    decision, _ = cycle.decide(profile, wanting(40))
    assert isinstance(decision, Bind)
    assert decision.node_name == "b"


def test_shortages_of_many_resources_are_told_in_order_and_the_rest_as_further_ones() -> None:
    state = make_state([make_node("a")])
    cycle, profile = make_cycle(state), make_profile(state, only("NodeResourcesFit"))
    for count, told in ((40, 40), (70, 60)):
        attempt = cycle.filter(profile, wanting(count))
        assert attempt.outcome is not None
        status = attempt.outcome.status(0)
        assert status is not None
        names = [f"Insufficient {name}" for name in MANY][:told]
        assert list(status.reasons) == names + [FURTHER] * (count > told)
        assert status.code.value == "UnschedulableAndUnresolvable"


POOR = make_pod("rejected")

HUNGRY = make_pod("rejected", cpu="2", requests={"example.com/gpu": 1})


@hints(
    ("a pod on a node went", HUNGRY, make_pod("o", node="n"), None, True),
    ("a nominee went", HUNGRY, make_pod("o", nominated="n"), None, True),
    ("a pod without a node went", HUNGRY, make_pod("o"), None, False),
    (
        "a pod gave cpu back",
        HUNGRY,
        make_pod("o", node="n", cpu="2"),
        make_pod("o", node="n", cpu="1"),
        True,
    ),
    (
        "a pod gave memory back, which it does not want",
        HUNGRY,
        make_pod("o", node="n", memory="2Gi"),
        make_pod("o", node="n", memory="1Gi"),
        False,
    ),
    (
        "a pod took more",
        HUNGRY,
        make_pod("o", node="n", cpu="1"),
        make_pod("o", node="n", cpu="2"),
        False,
    ),
    (
        "a pod without a node asks for less",
        HUNGRY,
        make_pod("o", cpu="2"),
        make_pod("o", cpu="1"),
        False,
    ),
    (
        "a pod gave a device back",
        HUNGRY,
        make_pod("o", node="n", requests={"example.com/gpu": 2}),
        make_pod("o", node="n", requests={"example.com/gpu": 1}),
        True,
    ),
)
def test_fit_waits_for_pods_to_make_room(case: HintCase) -> None:
    check_hint(make_plugin(NodeResourcesFit), ASSIGNED, case)


GPU = {"example.com__gpu": 1}


def big(**more: Any) -> Node:
    return make_node("n", **{"cpu": "4", **GPU, **more})


@hints(
    ("a node that is large enough came", HUNGRY, None, big(), True),
    ("a node that is too small came", HUNGRY, None, big(cpu="1"), False),
    ("a node without the device came", HUNGRY, None, make_node("n"), False),
    ("a node without room for pods came", HUNGRY, None, big(pods=0), False),
    ("a node has more cpu", HUNGRY, big(cpu="3"), big(cpu="4"), True),
    ("a node has room for more pods", HUNGRY, big(pods=5), big(pods=6), True),
    ("a node has more memory, which it does not want", HUNGRY, big(memory="1Gi"), big(), False),
    ("a node has less cpu", HUNGRY, big(cpu="4"), big(cpu="3"), False),
    ("a node has more cpu, yet too little", HUNGRY, big(cpu="500m"), big(cpu="1"), False),
    ("a node has the device now", HUNGRY, make_node("n"), big(), True),
    ("a pod that wants nothing, more cpu", POOR, big(cpu="3"), big(cpu="4"), False),
    ("a pod that wants nothing, a node came", POOR, None, make_node("n"), True),
)
def test_fit_waits_for_a_node_with_more_of_what_the_pod_wants(case: HintCase) -> None:
    check_hint(make_plugin(NodeResourcesFit), NODE, case)


def device_class(name: str, resource: str | None) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource)
    )


IMPLICIT = make_pod("rejected", requests={"deviceclass.resource.kubernetes.io/gpus": 1})


@hints(
    ("a class for its device came", HUNGRY, None, device_class("c", "example.com/gpu"), True),
    ("a class for another device came", HUNGRY, None, device_class("c", "example.com/x"), False),
    ("a class without a resource came", HUNGRY, None, device_class("c", None), False),
    ("the class that it names came", IMPLICIT, None, device_class("gpus", None), True),
    (
        "a class stands for its device now",
        HUNGRY,
        device_class("c", None),
        device_class("c", "example.com/gpu"),
        True,
    ),
    (
        "a class stood for its device before",
        HUNGRY,
        device_class("c", "example.com/gpu"),
        device_class("c", "example.com/gpu"),
        False,
    ),
)
def test_fit_waits_for_a_class_of_devices(case: HintCase) -> None:
    check_hint(make_plugin(NodeResourcesFit), EventResource.DEVICE_CLASS, case)


def test_without_device_backed_resources_fit_ignores_classes() -> None:
    before = EffectiveVersion.parse(["1.36"], [])  # from v1.37 on nobody can do without
    gates = FeatureGates({"DRAExtendedResource": False}, before)
    registered = make_plugin(NodeResourcesFit, gates=gates).events_to_register()
    assert [registration.event.resource for registration in registered] == [
        ASSIGNED,
        EventResource.TARGET_POD,
        NODE,
    ]
