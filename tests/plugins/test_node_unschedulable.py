"""NodeUnschedulable: cordoned nodes are for pods that tolerate the cordon."""

from framework.building import make_plugin
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.taints import Taint, Toleration
from moorage.plugins.node_unschedulable import NodeUnschedulable
from plugins.tables import (
    FITS,
    FilterCase,
    HintCase,
    check_filter,
    check_hint,
    hints,
    registered,
    table,
)
from reference.objects import (
    make_node,
    make_pod,
)

TARGET, NODE, A = EventResource.TARGET_POD, EventResource.NODE, ActionType
CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
CORDONED = make_node("n", unschedulable=True)
WERE_UNSCHEDULABLE = "node(s) were unschedulable"


@table(
    FilterCase("open", make_pod("p"), [make_node("n")], {"n": FITS}),
    FilterCase("cordoned", make_pod("p"), [CORDONED], {"n": WERE_UNSCHEDULABLE}),
    FilterCase(
        "the pod tolerates the cordon",
        make_pod("p", tolerations=[Toleration(key=CORDON.key, operator="Exists")]),
        [CORDONED],
        {"n": FITS},
    ),
    FilterCase(
        "the pod tolerates everything",
        make_pod("p", tolerations=[Toleration(operator="Exists")]),
        [CORDONED],
        {"n": FITS},
    ),
    FilterCase(
        "the pod tolerates another effect of it",
        make_pod("p", tolerations=[Toleration(key=CORDON.key, effect="NoExecute")]),
        [CORDONED],
        {"n": WERE_UNSCHEDULABLE},
    ),
    FilterCase(
        "the taint alone is another plugin's",
        make_pod("p"),
        [make_node("n", taints=[CORDON])],
        {"n": FITS},
    ),
)
def test_cordoned_nodes_are_refused(case: FilterCase) -> None:
    check_filter(NodeUnschedulable, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeUnschedulable) == [
        (NODE, A.ADD | A.UPDATE_NODE_TAINT, True),
        (TARGET, A.UPDATE_POD_TOLERATION, True),
    ]


POOR = make_pod("rejected")

OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)

TAINT = Taint(key="gpu", value="yes", effect="NoSchedule")

SOFT = Taint(key="gpu", value="yes", effect="PreferNoSchedule")

TAINTED, SOFTLY = make_node("n", taints=[TAINT]), make_node("n", taints=[SOFT])

TOLERANT = make_pod("rejected", tolerations=[Toleration(key="gpu", operator="Exists")])

FORGIVING = make_pod(
    "rejected",
    tolerations=[Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")],
)

STRANGER = make_pod("stranger", tolerations=[Toleration(operator="Exists")])


@hints(
    ("an open node came", POOR, None, OPEN, True),
    ("a cordoned node came", POOR, None, CORDONED, False),
    ("a node was uncordoned", POOR, CORDONED, OPEN, True),
    ("a node was cordoned", POOR, OPEN, CORDONED, False),
    ("an open node changed", POOR, OPEN, TAINTED, False),
    ("a cordoned node changed", POOR, CORDONED, CORDONED, False),
)
def test_node_unschedulable_waits_for_a_node_that_opens(case: HintCase) -> None:
    check_hint(make_plugin(NodeUnschedulable), NODE, case)


@hints(
    ("it tolerates cordons now", POOR, POOR, FORGIVING, True),
    ("it tolerates something else now", POOR, POOR, TOLERANT, False),
)
def test_node_unschedulable_waits_for_the_pod_to_tolerate_cordons(case: HintCase) -> None:
    check_hint(make_plugin(NodeUnschedulable), TARGET, case)
