"""PodTopologySpread: how evenly matching pods are spread over the domains of a node label."""

from typing import Any

from framework.building import make_plugin, make_state, only
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.pod import (
    Pod,
    TopologySpreadConstraint,
)
from moorage.model.taints import Taint, Toleration
from moorage.plugins.topology_spread import PodTopologySpread
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
    weighted,
)
from reference.objects import (
    HOSTNAME,
    ZONE,
    make_node,
    make_pod,
    selector,
)

ASSIGNED, TARGET = EventResource.ASSIGNED_POD, EventResource.TARGET_POD
NODE, A = EventResource.NODE, ActionType
SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
THREE = [make_node("a", zone="x"), make_node("b", zone="y"), make_node("c", zone="z")]


def hard(**fields: Any) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        **{"topology_key": ZONE, "label_selector": selector({"app": "web"}), **fields}
    )


def on(*nodes: str) -> list[Pod]:
    """Matching pods, one on each of these nodes."""
    return [
        make_pod(f"{number}", node=node, labels={"app": "web"}) for number, node in enumerate(nodes)
    ]


def spreading(**fields: Any) -> Pod:
    return make_pod("p", labels={"app": "web"}, spread=[hard(**fields)])


@table(
    FilterCase("nobody there yet", spreading(), THREE, {"a": FITS, "b": FITS, "c": FITS}),
    FilterCase(
        "the fullest zone is refused",
        spreading(),
        THREE,
        {"a": SKEWED, "b": FITS, "c": FITS},
        on("a"),
    ),
    FilterCase(
        "only the emptiest is left",
        spreading(),
        THREE,
        {"a": SKEWED, "b": SKEWED, "c": FITS},
        on("a", "b"),
    ),
    FilterCase(
        "even again", spreading(), THREE, {"a": FITS, "b": FITS, "c": FITS}, on("a", "b", "c")
    ),
    FilterCase(
        "a larger skew allows more",
        spreading(max_skew=2),
        THREE,
        {"a": FITS, "b": FITS, "c": FITS},
        on("a"),
    ),
    FilterCase(
        "pods that do not match do not count",
        spreading(),
        THREE,
        {"a": FITS, "b": FITS, "c": FITS},
        [make_pod("other", node="a")],
    ),
    FilterCase(
        "pods of other namespaces do not count",
        spreading(),
        THREE,
        {"a": FITS, "b": FITS, "c": FITS},
        [make_pod("other", namespace="else", node="a", labels={"app": "web"})],
    ),
    FilterCase(
        "a pod that does not match itself adds nothing",
        make_pod("p", spread=[hard()]),
        THREE,
        {"a": FITS, "b": FITS, "c": FITS},
        on("a"),
    ),
    FilterCase(
        "a node without the label",
        spreading(),
        [make_node("a", zone="x"), make_node("n")],
        {"a": FITS, "n": UNLABELLED},
    ),
    FilterCase(
        "too few domains count as an empty one",
        spreading(min_domains=4),
        THREE,
        {"a": SKEWED, "b": SKEWED, "c": SKEWED},
        on("a", "b", "c"),
    ),
    FilterCase(
        "nodes that the pod's selector leaves out are no domains",
        make_pod("p", labels={"app": "web"}, spread=[hard()], node_selector={"disk": "ssd"}),
        [make_node("a", zone="x", labels={"disk": "ssd"}), make_node("b", zone="y")],
        {"a": FITS, "b": FITS},
        on("a"),
    ),
    FilterCase(
        "unless the constraint ignores node affinity",
        make_pod(
            "p",
            labels={"app": "web"},
            spread=[hard(node_affinity_policy="Ignore")],
            node_selector={"disk": "ssd"},
        ),
        [make_node("a", zone="x", labels={"disk": "ssd"}), make_node("b", zone="y")],
        {"a": SKEWED, "b": FITS},
        on("a"),
    ),
    FilterCase(
        "tainted nodes are domains unless taints are honoured",
        spreading(node_taints_policy="Honor"),
        [
            make_node("a", zone="x"),
            make_node("b", zone="y", taints=[Taint(key="k", effect="NoSchedule")]),
        ],
        {"a": FITS, "b": FITS},
        on("a"),
    ),
    FilterCase(
        "a soft constraint refuses nobody",
        spreading(when_unsatisfiable="ScheduleAnyway"),
        THREE,
        {"a": FITS, "b": FITS, "c": FITS},
        on("a", "a", "a"),
    ),
)
def test_domains_that_would_have_too_many_are_refused(case: FilterCase) -> None:
    check_filter(PodTopologySpread, case)


@table(
    ScoreCase(
        "the emptier zone is better",
        spreading(when_unsatisfiable="ScheduleAnyway"),
        THREE[:2],
        {"a": 0, "b": 100},
        on("a", "a"),
    ),
    ScoreCase(
        "even zones",
        spreading(when_unsatisfiable="ScheduleAnyway"),
        THREE[:2],
        {"a": 100, "b": 100},
        on("a", "b"),
    ),
)
def test_domains_are_scored_by_how_many_they_have(case: ScoreCase) -> None:
    check_score(PodTopologySpread, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(PodTopologySpread) == [
        (ASSIGNED, A.ADD | A.UPDATE_POD_LABEL | A.DELETE, True),
        (TARGET, A.UPDATE_POD_LABEL | A.UPDATE_POD_TOLERATION, True),
        (NODE, A.ADD | A.DELETE | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT, True),
    ]


SPREAD = only("PodTopologySpread")


def soft(key: str = ZONE, skew: int = 1) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=selector({"app": "web"}),
    )


def web(name: str, node: str, **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": "web"}, **more)


def test_spread_scores_are_rounded_weights_of_the_domains() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y"), make_node("c", zone="y")]
    pods = [web("1", "a"), web("2", "b"), web("3", "b"), web("4", "c")]
    pod = make_pod("p", spread=[soft()])
    # Two domains weigh ln(4) = 1.386 a pod: 1.386 and 4.159, rounded.
    assert raw(nodes, pod, SPREAD, pods) == [1, 4, 4]
    # The best is not 100 but 100 * (max + min - score) / max.
    assert weighted(nodes, pod, SPREAD, pods) == [100, 25, 25]


def test_a_larger_skew_waters_the_differences_down() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y")]
    pods = [web("1", "b"), web("2", "b")]
    assert raw(nodes, make_pod("p", spread=[soft(skew=1)]), SPREAD, pods) == [0, 3]
    assert raw(nodes, make_pod("p", spread=[soft(skew=4)]), SPREAD, pods) == [3, 6]
    spread = make_pod("p", spread=[soft(skew=4)])
    assert weighted(nodes, spread, SPREAD, pods) == [100, 50]


def test_hostnames_count_only_a_nodes_own_pods_and_weigh_by_feasible_nodes() -> None:
    nodes = [make_node("a"), make_node("b"), make_node("c", labels={})]
    pod = make_pod("p", spread=[soft(HOSTNAME)])
    # c lacks the label: it is ignored, so ln(2 + 2) = 1.386.
    assert raw(nodes, pod, SPREAD, [web("1", "b"), web("2", "b")]) == [0, 3, 0]
    assert weighted(nodes, pod, SPREAD, [web("1", "b"), web("2", "b")]) == [100, 0, 0]


def test_without_any_matching_pod_all_nodes_with_the_label_score_100() -> None:
    nodes = [make_node("a", zone="x"), make_node("b")]
    assert weighted(nodes, make_pod("p", spread=[soft()]), SPREAD) == [100, 0]


def test_a_terminating_pod_does_not_count_in_spreading() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y")]
    hard = TopologySpreadConstraint(topology_key=ZONE, label_selector=selector({"app": "web"}))
    pod = make_pod("p", labels={"app": "web"}, spread=[hard])
    here = asked(make_state(nodes, [web("1", "a")]), pod, SPREAD)
    assert here.first["a"] is not None
    leaving = asked(make_state(nodes, [web("1", "a", terminating=True)]), pod, SPREAD)
    assert leaving.first["a"] is None


OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")

SOFT = Taint(key="gpu", value="yes", effect="PreferNoSchedule")

TAINTED, SOFTLY = make_node("n", taints=[TAINT]), make_node("n", taints=[SOFT])


def spread_pod(**constraint: Any) -> Pod:
    hard = TopologySpreadConstraint(
        topology_key=ZONE, label_selector=selector({"app": "web"}), **constraint
    )
    return make_pod("rejected", labels={"app": "web"}, spread=[hard])


SPREADING, HONORING = spread_pod(), spread_pod(node_taints_policy="Honor")


def other_web(**more: Any) -> Pod:
    return make_pod("o", **{"labels": {"app": "web"}, "node": "n", **more})


RELAXED = make_pod(
    "rejected",
    labels={"app": "web"},
    spread=HONORING.spec.topology_spread_constraints,
    tolerations=[Toleration(operator="Exists")],
)


@hints(
    ("a matching pod came", SPREADING, None, other_web(), True),
    ("a matching pod went", SPREADING, other_web(), None, True),
    ("a pod of another namespace went", SPREADING, other_web(namespace="other"), None, False),
    ("a pod without a node came", SPREADING, None, other_web(node=""), False),
    ("a matching nominee came", SPREADING, None, other_web(node="", nominated="n"), True),
    ("an unlike pod came", SPREADING, None, other_web(labels={}), False),
    ("a pod matches now", SPREADING, other_web(labels={}), other_web(), True),
    ("a pod does not match any more", SPREADING, other_web(), other_web(labels={}), True),
    (
        "a pod changed in other labels",
        SPREADING,
        other_web(),
        other_web(labels={"app": "web", "x": "y"}),
        False,
    ),
    ("a matching pod changed otherwise", SPREADING, other_web(), other_web(cpu="1"), False),
)
def test_spread_waits_for_pods_that_count(case: HintCase) -> None:
    check_hint(make_plugin(PodTopologySpread), ASSIGNED, case)


@hints(
    ("it tolerates more, and taints count", HONORING, HONORING, RELAXED, True),
    ("it tolerates more, and taints do not count", SPREADING, HONORING, RELAXED, False),
    ("it has other labels now", SPREADING, SPREADING, make_pod("rejected"), True),
)
def test_spread_waits_for_the_pod_itself_to_change(case: HintCase) -> None:
    check_hint(make_plugin(PodTopologySpread), TARGET, case)


ZONED, OTHER_ZONE = make_node("n", zone="a"), make_node("n", zone="b")


@hints(
    ("a node of a zone came", SPREADING, None, ZONED, True),
    ("a node without a zone came", SPREADING, None, OPEN, False),
    ("a node of a zone went", SPREADING, ZONED, None, True),
    ("a node without a zone went", SPREADING, OPEN, None, False),
    ("a node joined a zone", SPREADING, OPEN, ZONED, True),
    ("a node left its zone", SPREADING, ZONED, OPEN, True),
    ("a node changed its zone", SPREADING, ZONED, OTHER_ZONE, True),
    ("its taints changed", SPREADING, ZONED, make_node("n", zone="a", taints=[TAINT]), True),
    ("it was cordoned", SPREADING, ZONED, make_node("n", zone="a", unschedulable=True), False),
    ("a node without a zone got a taint", SPREADING, OPEN, TAINTED, False),
)
def test_spread_waits_for_nodes_of_the_domains(case: HintCase) -> None:
    check_hint(make_plugin(PodTopologySpread), NODE, case)
