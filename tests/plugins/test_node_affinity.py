"""NodeAffinity: node selector, required and preferred node affinity, and the profile's own."""

from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.framework.status import Code, Status
from moorage.model.affinity import Affinity
from moorage.model.node_selector import NodeSelectorTerm
from moorage.model.pod import Pod
from moorage.plugins.node_affinity import NodeAffinity
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
    ZONE,
    make_node,
    make_pod,
    node_affinity,
    node_term,
)

POD, NODE, A = EventResource.POD, EventResource.NODE, ActionType
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
DISKS = [
    make_node("ssd", labels={"disk": "ssd", "n": "5"}),
    make_node("hdd", labels={"disk": "hdd"}),
]


def requiring(*terms: NodeSelectorTerm) -> Pod:
    return make_pod("p", affinity=Affinity(node_affinity=node_affinity(terms)))


def preferring(*wishes: tuple[int, NodeSelectorTerm]) -> Pod:
    return make_pod("p", affinity=Affinity(node_affinity=node_affinity(None, wishes)))


@table(
    FilterCase("nothing asked", make_pod("p"), DISKS, {"ssd": FITS, "hdd": FITS}),
    FilterCase(
        "node selector",
        make_pod("p", node_selector={"disk": "ssd"}),
        DISKS,
        {"ssd": FITS, "hdd": UNMATCHED},
    ),
    FilterCase(
        "In",
        requiring(node_term(("disk", "In", ["ssd", "nvme"]))),
        DISKS,
        {"ssd": FITS, "hdd": UNMATCHED},
    ),
    FilterCase(
        "NotIn",
        requiring(node_term(("disk", "NotIn", ["ssd"]))),
        DISKS,
        {"ssd": UNMATCHED, "hdd": FITS},
    ),
    FilterCase(
        "Exists", requiring(node_term(("n", "Exists", []))), DISKS, {"ssd": FITS, "hdd": UNMATCHED}
    ),
    FilterCase(
        "DoesNotExist",
        requiring(node_term(("n", "DoesNotExist", []))),
        DISKS,
        {"ssd": UNMATCHED, "hdd": FITS},
    ),
    FilterCase(
        "Gt", requiring(node_term(("n", "Gt", ["4"]))), DISKS, {"ssd": FITS, "hdd": UNMATCHED}
    ),
    FilterCase(
        "Lt", requiring(node_term(("n", "Lt", ["5"]))), DISKS, {"ssd": UNMATCHED, "hdd": UNMATCHED}
    ),
    FilterCase(
        "expressions of a term are joined by and",
        requiring(node_term(("disk", "Exists", []), ("n", "Exists", []))),
        DISKS,
        {"ssd": FITS, "hdd": UNMATCHED},
    ),
    FilterCase(
        "terms are joined by or",
        requiring(node_term(("disk", "In", ["hdd"])), node_term(("n", "Exists", []))),
        DISKS,
        {"ssd": FITS, "hdd": FITS},
    ),
    FilterCase("no term matches nothing", requiring(), DISKS, {"ssd": UNMATCHED, "hdd": UNMATCHED}),
    FilterCase(
        "by name",
        requiring(node_term(names=("NotIn", ["ssd"]))),
        DISKS,
        {"ssd": UNMATCHED, "hdd": FITS},
    ),
)
def test_nodes_that_do_not_match_are_refused(case: FilterCase) -> None:
    check_filter(NodeAffinity, case)


@table(
    ScoreCase(
        "one wish",
        preferring((5, node_term(("disk", "In", ["ssd"])))),
        DISKS,
        {"ssd": 100, "hdd": 0},
    ),
    ScoreCase(
        "two wishes",
        preferring((30, node_term(("disk", "Exists", []))), (10, node_term(("n", "Exists", [])))),
        DISKS,
        {"ssd": 100, "hdd": 75},
    ),
    ScoreCase(
        "nobody grants it",
        preferring((5, node_term(("gone", "Exists", [])))),
        DISKS,
        {"ssd": 0, "hdd": 0},
    ),
)
def test_nodes_are_scored_by_granted_wishes(case: ScoreCase) -> None:
    check_score(NodeAffinity, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeAffinity) == [(NODE, A.ADD | A.UPDATE_NODE_LABEL, True)]


def test_every_term_that_names_nodes_narrows_the_search_to_them() -> None:
    state = make_state([make_node(name) for name in "abc"])
    terms = [node_term(names=("In", ["b"])), node_term(names=("In", ["gone"]))]
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity(terms)))
    result = asked(state, pod, only("NodeAffinity"))
    assert result.node_names == {"b", "gone"}
    assert result.first == {"b": None}


def test_one_term_that_names_no_node_keeps_the_search_wide() -> None:
    state = make_state([make_node("a"), make_node("b", zone="x")])
    terms = [node_term(names=("In", ["a"])), node_term((ZONE, "Exists", []))]
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity(terms)))
    result = asked(state, pod, only("NodeAffinity"))
    assert result.node_names is None
    assert result.first == {"a": None, "b": None}


def test_names_that_exclude_each_other_are_a_conflict() -> None:
    one, other = node_term(names=("In", ["a"])), node_term(names=("In", ["b"]))
    term = NodeSelectorTerm(match_fields=(*one.match_fields, *other.match_fields))
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity([term])))
    state = make_state([make_node("a"), make_node("b")])
    attempt = make_cycle(state).filter(make_profile(state), pod)
    assert attempt.before.rejection == Status(
        Code.UNRESOLVABLE, ("pod affinity terms conflict",), "NodeAffinity"
    )


def test_an_unreadable_term_does_not_spoil_its_siblings() -> None:
    state = make_state([make_node("a", labels={"n": "5"}), make_node("b", labels={})])
    terms = [node_term(("n", "Gt", ["four"])), node_term(("n", "Gt", ["4"])), node_term()]
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity(terms)))
    result = asked(state, pod, only("NodeAffinity"))
    assert [result.first[name] is None for name in "ab"] == [True, False]


def test_wishes_for_nodes_add_up_their_weights() -> None:
    nodes = [make_node("a", labels={"d": "1"}), make_node("b", labels={"d": "2", "e": ""})]
    wishes = [(30, node_term(("d", "Exists", []))), (10, node_term(("e", "Exists", [])))]
    wishes += [(99, node_term())]
    pod = make_pod("p", affinity=Affinity(node_affinity=node_affinity(None, wishes)))
    assert raw(nodes, pod, only("NodeAffinity")) == [30, 40]
    assert weighted(nodes, pod, only("NodeAffinity")) == [75, 100]


POOR = make_pod("rejected")

SSD, HDD = make_node("n", labels={"disk": "ssd"}), make_node("n", labels={"disk": "hdd"})

WANTS_SSD = make_pod(
    "rejected",
    affinity=Affinity(node_affinity=node_affinity([node_term(("disk", "In", ["ssd"]))])),
)

SELECTS_SSD = make_pod("rejected", node_selector={"disk": "ssd"})

GARBLED = make_pod(
    "rejected",
    affinity=Affinity(node_affinity=node_affinity([node_term(("disk", "Gt", ["big"]))])),
)


@hints(
    ("a matching node came", WANTS_SSD, None, SSD, True),
    ("a node came that does not match", WANTS_SSD, None, HDD, False),
    ("a node matches now", WANTS_SSD, HDD, SSD, True),
    ("a node matched before", WANTS_SSD, SSD, SSD, False),
    ("a node does not match any more", WANTS_SSD, SSD, HDD, False),
    ("a selected node came", SELECTS_SSD, None, SSD, True),
    ("a node is selected now", SELECTS_SSD, HDD, SSD, True),
    ("a node is not selected", SELECTS_SSD, None, HDD, False),
    ("a term that cannot be read may mean anything", GARBLED, None, SSD, True),
)
def test_node_affinity_waits_for_a_node_that_matches(case: HintCase) -> None:
    check_hint(make_plugin(NodeAffinity), NODE, case)


@hints(
    ("a node that the profile admits came", SELECTS_SSD, None, SSD, True),
    ("a node came that the profile keeps out", POOR, None, HDD, False),
    ("a node that the profile admits now", POOR, HDD, SSD, False),
)
def test_node_affinity_looks_at_the_profiles_demands_on_the_new_node_only(case: HintCase) -> None:
    args = type(
        "Args",
        (),
        {
            "added_affinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                    ]
                }
            }
        },
    )
    check_hint(make_plugin(NodeAffinity, args=args()), NODE, case)
