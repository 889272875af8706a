"""TaintToleration: does the pod tolerate the node's taints, and how many soft ones does it not?"""

import pytest

from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.engine.decisions import Unschedulable
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.pod import (
    TopologySpreadConstraint,
)
from moorage.model.taints import Taint, Toleration
from moorage.plugins.taint_toleration import TaintToleration
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
    selector,
)

TARGET, NODE, A = EventResource.TARGET_POD, EventResource.NODE, ActionType
HARD = Taint(key="gpu", value="yes", effect="NoSchedule")
EVICTING = Taint(key="gpu", value="yes", effect="NoExecute")
WISH = Taint(key="gpu", value="yes", effect="PreferNoSchedule")
PLAIN = make_pod("plain")
FOR_GPU = make_pod("gpu", tolerations=[Toleration(key="gpu", operator="Exists")])
UNTOLERATED = "node(s) had untolerated taint(s)"


@table(
    FilterCase("no taint", PLAIN, [make_node("a")], {"a": FITS}),
    FilterCase("NoSchedule", PLAIN, [make_node("a", taints=[HARD])], {"a": UNTOLERATED}),
    FilterCase("NoExecute", PLAIN, [make_node("a", taints=[EVICTING])], {"a": UNTOLERATED}),
    FilterCase("PreferNoSchedule", PLAIN, [make_node("a", taints=[WISH])], {"a": FITS}),
    FilterCase("tolerated", FOR_GPU, [make_node("a", taints=[HARD, EVICTING])], {"a": FITS}),
    FilterCase(
        "one of two taints is tolerated",
        FOR_GPU,
        [make_node("a", taints=[HARD, Taint(key="team", value="red", effect="NoSchedule")])],
        {"a": UNTOLERATED},
    ),
    FilterCase(
        "each node for itself",
        PLAIN,
        [make_node("a"), make_node("b", taints=[HARD]), make_node("c", taints=[WISH])],
        {"a": FITS, "b": UNTOLERATED, "c": FITS},
    ),
)
def test_nodes_are_refused_for_taints_that_the_pod_does_not_tolerate(case: FilterCase) -> None:
    check_filter(TaintToleration, case)


@table(
    ScoreCase(
        "the fewer soft taints the better",
        PLAIN,
        [make_node("a"), make_node("b", taints=[WISH])],
        {"a": 100, "b": 0},
    ),
    ScoreCase(
        "tolerated ones do not count",
        FOR_GPU,
        [make_node("a"), make_node("b", taints=[WISH])],
        {"a": 100, "b": 100},
    ),
)
def test_nodes_are_scored_by_soft_taints(case: ScoreCase) -> None:
    check_score(TaintToleration, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(TaintToleration) == [
        (NODE, A.ADD | A.UPDATE_NODE_TAINT, True),
        (TARGET, A.UPDATE_POD_TOLERATION, False),
    ]


def test_the_taint_that_keeps_a_pod_out_is_not_named() -> None:
    taint = Taint(key="team", value="red", effect="NoExecute")
    state = make_state([make_node("a", taints=[taint])])
    decision, _ = make_cycle(state).decide(
        make_profile(state, only("TaintToleration")), make_pod("p")
    )
    assert isinstance(decision, Unschedulable)
    assert decision.message == "0/1 nodes are available: 1 node(s) had untolerated taint(s)."


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(key="k", operator="Exists", value="ignored"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(value="v"), True),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Gt", value="v"), False),
    ],
    ids=[
        "no operator means equal",
        "another value",
        "exists does not look at the value",
        "an empty key with exists answers everything",
        "an empty key with equal answers every key of that value",
        "another effect",
        "comparing is off by default",
    ],
)
def test_tolerations_answer_taints_as_upstream_matches_them(
    toleration: Toleration, tolerated: bool
) -> None:
    state = make_state([make_node("a", taints=[Taint(key="k", value="v", effect="NoSchedule")])])
    result = asked(state, make_pod("p", tolerations=[toleration]), only("TaintToleration"))
    assert (result.first["a"] is None) is tolerated


def test_only_tolerations_that_can_mean_soft_taints_spare_a_node_its_penalty() -> None:
    soft = Taint(key="k", value="v", effect="PreferNoSchedule")
    nodes = [make_node("a", taints=[soft, soft]), make_node("b", taints=[soft]), make_node("c")]
    hard_only = make_pod("p", tolerations=[Toleration(key="k", effect="NoSchedule", value="v")])
    assert raw(nodes, hard_only, only("TaintToleration")) == [2, 1, 0]
    assert weighted(nodes, hard_only, only("TaintToleration")) == [0, 50, 100]
    any_effect = make_pod("p", tolerations=[Toleration(key="k", value="v")])
    assert weighted(nodes, any_effect, only("TaintToleration")) == [100, 100, 100]


def soft(key: str = ZONE, skew: int = 1) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway",
        label_selector=selector({"app": "web"}),
    )


POOR = make_pod("rejected")

OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")

SOFT = Taint(key="gpu", value="yes", effect="PreferNoSchedule")

TAINTED, SOFTLY = make_node("n", taints=[TAINT]), make_node("n", taints=[SOFT])

TOLERANT = make_pod("rejected", tolerations=[Toleration(key="gpu", operator="Exists")])

STRANGER = make_pod("stranger", tolerations=[Toleration(operator="Exists")])


@hints(
    ("a node without taints came", POOR, None, OPEN, True),
    ("a tainted node came", POOR, None, TAINTED, False),
    ("a tolerated node came", TOLERANT, None, TAINTED, True),
    ("a softly tainted node came", POOR, None, SOFTLY, True),
    ("the taint went", POOR, TAINTED, OPEN, True),
    ("the taint became soft", POOR, TAINTED, SOFTLY, True),
    ("nothing kept it out before", POOR, OPEN, SOFTLY, False),
    ("it was tolerated before", TOLERANT, TAINTED, OPEN, False),
    ("a taint came", POOR, OPEN, TAINTED, False),
)
def test_taint_toleration_waits_for_a_node_that_becomes_tolerable(case: HintCase) -> None:
    check_hint(make_plugin(TaintToleration), NODE, case)
