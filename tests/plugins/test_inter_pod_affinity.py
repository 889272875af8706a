"""InterPodAffinity: near which pods a pod must, must not or would like to run, and they near it."""

from typing import Any

import pytest

from framework.building import make_plugin, make_state, only
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.affinity import Affinity
from moorage.model.pod import (
    Pod,
)
from moorage.plugins.inter_pod_affinity import InterPodAffinity
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
    away,
    make_namespace,
    make_node,
    make_pod,
    near,
    pod_term,
    pod_terms,
    selector,
)

ASSIGNED, TARGET = EventResource.ASSIGNED_POD, EventResource.TARGET_POD
NODE, A = EventResource.NODE, ActionType
NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"
ZONES = [make_node("a", zone="x"), make_node("a2", zone="x"), make_node("b", zone="y")]
TO_WEB = pod_term(ZONE, selector({"app": "web"}))
THERE = [make_pod("there", node="a", labels={"app": "web"})]


def wishing(*wishes: tuple[int, Any]) -> Pod:
    return make_pod("p", affinity=Affinity(pod_affinity=pod_terms([], wishes)))


@table(
    FilterCase("no terms", make_pod("p"), ZONES, {"a": FITS, "a2": FITS, "b": FITS}, THERE),
    FilterCase(
        "near: the whole domain fits",
        make_pod("p", affinity=near(TO_WEB)),
        ZONES,
        {"a": FITS, "a2": FITS, "b": NOT_NEAR},
        THERE,
    ),
    FilterCase(
        "near: nobody to be near to",
        make_pod("p", affinity=near(TO_WEB)),
        ZONES,
        {"a": NOT_NEAR, "a2": NOT_NEAR, "b": NOT_NEAR},
    ),
    FilterCase(
        "near: the first of its kind",
        make_pod("p", labels={"app": "web"}, affinity=near(TO_WEB)),
        ZONES,
        {"a": FITS, "a2": FITS, "b": FITS},
    ),
    FilterCase(
        "near: both terms must hold",
        make_pod("p", affinity=near(TO_WEB, pod_term(ZONE, selector({"app": "db"})))),
        ZONES,
        {"a": NOT_NEAR, "a2": NOT_NEAR, "b": NOT_NEAR},
        THERE,
    ),
    FilterCase(
        "near: on the same host",
        make_pod("p", affinity=near(pod_term(HOSTNAME, selector({"app": "web"})))),
        ZONES,
        {"a": FITS, "a2": NOT_NEAR, "b": NOT_NEAR},
        THERE,
    ),
    FilterCase(
        "near: another namespace does not count",
        make_pod("p", affinity=near(TO_WEB)),
        ZONES,
        {"a": NOT_NEAR, "a2": NOT_NEAR, "b": NOT_NEAR},
        [make_pod("there", namespace="else", node="a", labels={"app": "web"})],
    ),
    FilterCase(
        "near: unless the term names it",
        make_pod("p", affinity=near(pod_term(ZONE, selector({"app": "web"}), namespaces=["else"]))),
        ZONES,
        {"a": FITS, "a2": FITS, "b": NOT_NEAR},
        [make_pod("there", namespace="else", node="a", labels={"app": "web"})],
    ),
    FilterCase(
        "away: the whole domain is refused",
        make_pod("p", affinity=away(TO_WEB)),
        ZONES,
        {"a": TOO_NEAR, "a2": TOO_NEAR, "b": FITS},
        THERE,
    ),
    FilterCase(
        "away: nodes without the label are no domain",
        make_pod("p", affinity=away(TO_WEB)),
        [*ZONES, make_node("n")],
        {"a": TOO_NEAR, "a2": TOO_NEAR, "b": FITS, "n": FITS},
        THERE,
    ),
    FilterCase(
        "existing pods want to be away from it",
        make_pod("p", labels={"app": "web"}),
        ZONES,
        {"a": UNWELCOME, "a2": UNWELCOME, "b": FITS},
        [make_pod("there", node="a", affinity=away(TO_WEB))],
    ),
)
def test_nodes_are_refused_for_the_pods_in_their_domain(case: FilterCase) -> None:
    check_filter(InterPodAffinity, case)


@table(
    ScoreCase("a wish", wishing((5, TO_WEB)), ZONES, {"a": 100, "a2": 100, "b": 0}, THERE),
    ScoreCase(
        "the larger wish",
        wishing((5, TO_WEB), (20, pod_term(ZONE, selector({"app": "db"})))),
        ZONES,
        {"a": 0, "a2": 0, "b": 100},
        [*THERE, make_pod("db", node="b", labels={"app": "db"})],
    ),
    ScoreCase("nobody there", wishing((5, TO_WEB)), ZONES, {"a": 0, "a2": 0, "b": 0}),
)
def test_nodes_are_scored_by_wishes(case: ScoreCase) -> None:
    check_score(InterPodAffinity, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(InterPodAffinity) == [
        (ASSIGNED, A.ADD | A.UPDATE_POD_LABEL | A.DELETE, True),
        (TARGET, A.UPDATE_POD_LABEL, False),
        (NODE, A.ADD | A.UPDATE_NODE_LABEL, True),
    ]


def web(name: str, node: str, **more: Any) -> Pod:
    return make_pod(name, node=node, labels={"app": "web"}, **more)


AFFINITY = only("InterPodAffinity")


@pytest.mark.parametrize(
    ("found", "near_other"),
    [
        (selector({"team": "red"}), False),
        (selector({"team": "blue"}), True),
        (selector(), True),
        (selector(None, ("team", "DoesNotExist", [])), False),
        (selector(None, ("team", "NotIn", ["blue"])), False),
        (selector(None, ("team", "Exists", [])), True),
        (None, False),
    ],
    ids=[
        "a selector that does not find the namespace",
        "a selector that finds it",
        "an empty selector finds all",
        "one that namespaces without labels satisfy finds no others",
        "not-in is such a one",
        "one that finds the namespace by its labels",
        "none means the pod's own namespace",
    ],
)
def test_a_namespace_selector_stands_for_the_namespaces_it_finds(
    found: Any, near_other: bool
) -> None:
    state = make_state(
        [make_node("n", zone="x")],
        [make_pod("there", namespace="other", node="n", labels={"app": "web"})],
        [make_namespace("other", team="blue"), make_namespace("default")],
    )
    term = pod_term(ZONE, selector({"app": "web"}), namespace_selector=found)
    result = asked(state, make_pod("p", affinity=near(term)), AFFINITY)
    assert (result.first["n"] is None) is near_other


def test_terms_of_pods_on_nodes_see_the_newcomers_namespace_labels() -> None:
    term = pod_term(ZONE, selector({"app": "web"}), namespace_selector=selector({"team": "blue"}))
    nodes = [make_node("n", zone="x")]
    there = make_pod("there", namespace="other", node="n", affinity=away(term))
    newcomer = make_pod("p", labels={"app": "web"})
    unknown = asked(make_state(nodes, [there]), newcomer, AFFINITY)
    assert unknown.first == {"n": None}
    blue = make_state(nodes, [there], [make_namespace("default", team="blue")])
    refused = asked(blue, newcomer, AFFINITY).first["n"]
    assert refused is not None
    assert refused[1].reasons == ("node(s) didn't satisfy existing pods anti-affinity rules",)


def test_a_terminating_pod_still_counts_in_affinity() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y")]
    pod = make_pod("p", affinity=near(pod_term(ZONE, selector({"app": "web"}))))
    leaving = asked(make_state(nodes, [web("1", "a", terminating=True)]), pod, AFFINITY)
    assert [leaving.first[name] is None for name in ("a", "b")] == [True, False]


def test_the_first_pod_of_a_group_may_go_anywhere_with_the_topology_key() -> None:
    nodes = [make_node("a", zone="x"), make_node("b")]
    term = pod_term(ZONE, selector({"app": "web"}))
    own = make_pod("p", labels={"app": "web"}, affinity=near(term))
    assert [r is None for r in asked(make_state(nodes), own, AFFINITY).first.values()] == [
        True,
        False,
    ]
    stranger = make_pod("p", affinity=near(term))
    assert all(asked(make_state(nodes), stranger, AFFINITY).first.values())


def test_required_terms_of_pods_on_nodes_attract_with_the_hard_weight() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y")]
    term = pod_term(ZONE, selector({"app": "web"}))
    there = make_pod("there", node="a", labels={"app": "web"}, affinity=near(term))
    pod = make_pod("p", labels={"app": "web"})
    assert raw(nodes, pod, AFFINITY, [there]) == [1, 0]
    args = {"hardPodAffinityWeight": 0}
    nothing = AFFINITY | {"pluginConfig": [{"name": "InterPodAffinity", "args": args}]}
    assert asked(make_state(nodes, [there]), pod, nothing).raw == {}


def test_equal_sums_of_weights_all_score_zero() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="x")]
    wish = Affinity(pod_affinity=pod_terms([], [(7, pod_term(ZONE, selector({"app": "web"})))]))
    pod = make_pod("p", affinity=wish)
    assert raw(nodes, pod, AFFINITY, [web("1", "a")]) == [7, 7]
    assert weighted(nodes, pod, AFFINITY, [web("1", "a")]) == [0, 0]


POOR = make_pod("rejected")

OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)


def other_web(**more: Any) -> Pod:
    return make_pod("o", **{"labels": {"app": "web"}, "node": "n", **more})


ZONED, OTHER_ZONE = make_node("n", zone="a"), make_node("n", zone="b")

TERM = pod_term(ZONE, selector({"app": "web"}))

FRIEND = make_pod("rejected", affinity=near(TERM))

FOE = make_pod("rejected", labels={"app": "db"}, affinity=away(TERM))

PICKY = make_pod("rejected", affinity=away(TERM, pod_term(ZONE, selector({"tier": "1"}))))

BOTH = make_pod("o", node="n", labels={"app": "web", "tier": "1"})

CHOOSY = make_pod("rejected", affinity=near(TERM, pod_term(ZONE, selector({"tier": "1"}))))


@hints(
    ("a friend came", FRIEND, None, other_web(), True),
    ("a friend without a node came", FRIEND, None, other_web(node=""), False),
    ("a nominated friend came", FRIEND, None, other_web(node="", nominated="n"), True),
    ("a stranger came", FRIEND, None, other_web(labels={}), False),
    ("a pod that matches one of two terms came", CHOOSY, None, other_web(), False),
    (
        "a pod that matches both terms came",
        CHOOSY,
        None,
        other_web(labels={"app": "web", "tier": "1"}),
        True,
    ),
    ("a friend went", FRIEND, other_web(), None, False),
    ("a pod became a friend", FRIEND, other_web(labels={}), other_web(), True),
    ("a friend changed", FRIEND, other_web(), other_web(labels={"app": "web", "x": "y"}), False),
    ("a friend of another namespace came", FRIEND, None, other_web(namespace="other"), False),
    ("a foe went", FOE, other_web(), None, True),
    ("a foe came", FOE, None, other_web(), False),
    ("a foe is none any more", FOE, other_web(), other_web(labels={}), True),
    ("a pod that one of two terms minds went", PICKY, other_web(), None, True),
    ("a pod that one term minds less is minded by the other", PICKY, BOTH, other_web(), False),
    (
        "a pod went that did not want it",
        make_pod("rejected", labels={"app": "web"}),
        make_pod("o", node="n", affinity=away(TERM)),
        None,
        True,
    ),
    ("a stranger went", FOE, other_web(labels={}), None, False),
)
def test_affinity_waits_for_friends_to_come_and_foes_to_go(case: HintCase) -> None:
    check_hint(make_plugin(InterPodAffinity), ASSIGNED, case)


@hints(
    ("a node of a zone came", FRIEND, None, ZONED, True),
    ("a node without a zone came", FRIEND, None, OPEN, False),
    ("a node joined a zone", FRIEND, OPEN, ZONED, True),
    ("a node changed its zone", FRIEND, ZONED, OTHER_ZONE, True),
    ("a node left its zone", FRIEND, ZONED, OPEN, False),
    ("any node came to a pod with foes", FOE, None, OPEN, True),
    ("a node left the zone of foes", FOE, ZONED, OPEN, True),
    ("a node moved, foes", FOE, ZONED, OTHER_ZONE, True),
    ("a node joined a zone, foes", FOE, OPEN, ZONED, False),
    ("a node stayed in its zone", FRIEND, ZONED, ZONED, False),
    ("a node came to a pod without terms", POOR, None, ZONED, False),
)
def test_affinity_waits_for_nodes_in_other_domains(case: HintCase) -> None:
    check_hint(make_plugin(InterPodAffinity), NODE, case)
