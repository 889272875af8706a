"""NodeDeclaredFeatures: does the node declare the features that the pod cannot do without?"""

import pytest

from framework.building import make_plugin, make_state, only
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.pod import (
    Container,
    ContainerRestartRule,
    VolumeMount,
)
from moorage.model.taints import Toleration
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from plugins.tables import (
    FITS,
    FilterCase,
    HintCase,
    asked,
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
MISSING = "node(s) didn't match Pod's required features"
HOST_USERS = "UserNamespacesHostNetworkSupport"
NEEDS = make_pod("p", host_network=True, host_users=False)


@table(
    FilterCase("needs nothing", make_pod("p"), [make_node("n")], {"n": FITS}),
    FilterCase("not declared", NEEDS, [make_node("n")], {"n": MISSING}),
    FilterCase("declared", NEEDS, [make_node("n", features=[HOST_USERS])], {"n": FITS}),
    FilterCase(
        "declared among others",
        NEEDS,
        [make_node("n", features=["Other", HOST_USERS])],
        {"n": FITS},
    ),
    FilterCase("another one declared", NEEDS, [make_node("n", features=["Other"])], {"n": MISSING}),
)
def test_nodes_without_the_needed_features_are_refused(case: FilterCase) -> None:
    check_filter(NodeDeclaredFeatures, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodeDeclaredFeatures) == [
        (NODE, A.ADD | A.UPDATE_NODE_DECLARED_FEATURE, True),
        (TARGET, A.UPDATE, True),
    ]


@pytest.mark.parametrize(
    ("container", "host", "declared", "fits"),
    [
        (Container(name="c"), False, (), True),
        (Container(name="c"), True, (), False),
        (Container(name="c"), True, ("UserNamespacesHostNetworkSupport", "Other"), True),
        (Container(name="c", volume_mounts=(VolumeMount(("noexec",)),)), False, (), False),
        (
            Container(name="c", volume_mounts=(VolumeMount(("noexec",)),)),
            False,
            ("VolumeBindMountOptions",),
            True,
        ),
        (Container(name="c", volume_mounts=(VolumeMount(),)), False, (), True),
    ],
    ids=[
        "nothing special",
        "not declared",
        "declared",
        "mount options not declared",
        "mount options declared",
        "a plain mount",
    ],
)
def test_features_that_a_pod_implies_must_be_declared(
    container: Container, host: bool, declared: tuple[str, ...], fits: bool
) -> None:
    pod = make_pod(
        "p", containers=[container], host_network=host, host_users=False if host else None
    )
    state = make_state([make_node("n", features=declared)])
    assert (asked(state, pod, only("NodeDeclaredFeatures")).first["n"] is None) is fits


POOR = make_pod("rejected")

OPEN, CORDONED = make_node("n"), make_node("n", unschedulable=True)

STRANGER = make_pod("stranger", tolerations=[Toleration(operator="Exists")])

FEATURED = make_node("n", features=["F"])

RULE = ContainerRestartRule(action="RestartAllContainers")

NEEDY = make_pod("rejected", containers=[Container(name="c", restart_policy_rules=(RULE,))])


@hints(
    ("a node came", NEEDY, None, OPEN, True),
    ("a node declares something else", NEEDY, OPEN, FEATURED, True),
    ("a node changed otherwise", NEEDY, FEATURED, FEATURED, False),
)
def test_declared_features_wait_for_nodes_that_declare_others(case: HintCase) -> None:
    check_hint(make_plugin(NodeDeclaredFeatures), NODE, case)


@hints(
    ("it needs something else now", NEEDY, NEEDY, POOR, True),
    ("it needs the same", NEEDY, NEEDY, NEEDY, False),
)
def test_declared_features_wait_for_the_pod_to_need_others(case: HintCase) -> None:
    check_hint(make_plugin(NodeDeclaredFeatures), TARGET, case)
