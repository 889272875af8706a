"""Which events let a rejected pod try again, plugin by plugin (parity/plugins.md)."""

from typing import Any, NamedTuple

import pytest

from framework.building import make_plugin
from moorage.config import FeatureGates
from moorage.framework.cluster_events import (
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
)
from moorage.framework.plugin import Plugin
from moorage.model.affinity import Affinity
from moorage.model.devices import DeviceClass, DeviceClassSpec
from moorage.model.meta import ApiObject, ObjectMeta
from moorage.model.node import Node
from moorage.model.pod import (
    Container,
    ContainerRestartRule,
    Pod,
    TopologySpreadConstraint,
)
from moorage.model.taints import Taint, Toleration
from moorage.plugins.default_preemption import DefaultPreemption
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.node_affinity import NodeAffinity
from moorage.plugins.node_declared_features import NodeDeclaredFeatures
from moorage.plugins.node_name import NodeName
from moorage.plugins.node_ports import NodePorts
from moorage.plugins.node_resources_fit import NodeResourcesFit
from moorage.plugins.node_unschedulable import NodeUnschedulable
from moorage.plugins.scheduling_gates import SchedulingGates
from moorage.plugins.taint_toleration import TaintToleration
from moorage.plugins.topology_spread import PodTopologySpread
from reference.objects import (
    ZONE,
    away,
    host_port,
    make_node,
    make_pod,
    near,
    node_affinity,
    node_term,
    pod_term,
    selector,
)

POD, NODE = EventResource.POD, EventResource.NODE
A = ActionType

REGISTERED: dict[type[Plugin], list[tuple[EventResource, ActionType, bool]]] = {
    SchedulingGates: [(POD, A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, True)],
    NodeUnschedulable: [
        (NODE, A.ADD | A.UPDATE_NODE_TAINT, True),
        (POD, A.UPDATE_POD_TOLERATION, True),
    ],
    NodeName: [(NODE, A.ADD, False)],
    TaintToleration: [
        (NODE, A.ADD | A.UPDATE_NODE_TAINT, True),
        (POD, A.UPDATE_POD_TOLERATION, True),
    ],
    NodeAffinity: [(NODE, A.ADD | A.UPDATE_NODE_LABEL, True)],
    NodePorts: [(POD, A.DELETE, True), (NODE, A.ADD, False)],
    NodeResourcesFit: [
        (POD, A.DELETE | A.UPDATE_POD_SCALE_DOWN, True),
        (NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE, True),
        (EventResource.DEVICE_CLASS, A.ADD | A.UPDATE, True),
    ],
    PodTopologySpread: [
        (POD, A.ADD | A.UPDATE_POD_LABEL | A.UPDATE_POD_TOLERATION | A.DELETE, True),
        (NODE, A.ADD | A.DELETE | A.UPDATE_NODE_LABEL | A.UPDATE_NODE_TAINT, True),
    ],
    InterPodAffinity: [
        (POD, A.ADD | A.UPDATE_POD_LABEL | A.DELETE, True),
        (NODE, A.ADD | A.UPDATE_NODE_LABEL, True),
    ],
    DefaultPreemption: [(POD, A.DELETE, True)],
    NodeDeclaredFeatures: [
        (NODE, A.ADD | A.UPDATE_NODE_DECLARED_FEATURE, True),
        (POD, A.UPDATE, True),
    ],
}


@pytest.mark.parametrize("plugin", REGISTERED, ids=lambda plugin: plugin.name)
def test_plugins_register_the_events_that_upstreams_do(plugin: type[Plugin]) -> None:
    found = [
        (registration.event.resource, registration.event.action, registration.hint is not None)
        for registration in make_plugin(plugin).events_to_register()
    ]
    assert found == REGISTERED[plugin]


class Case(NamedTuple):
    """One change, and whether the pod may try again."""

    id: str
    pod: Pod
    old: ApiObject | None
    new: ApiObject | None
    queue: bool


def hint_of(plugin: Any, resource: EventResource) -> Any:
    (registration,) = [r for r in plugin.events_to_register() if r.event.resource is resource]
    return registration.hint


def check(plugin: Any, resource: EventResource, case: Case) -> None:
    answer = hint_of(plugin, resource)(case.pod, case.old, case.new)
    assert answer is (QueueingHint.QUEUE if case.queue else QueueingHint.SKIP)


def cases(
    *rows: tuple[str, Pod, ApiObject | None, ApiObject | None, bool],
) -> pytest.MarkDecorator:
    table = [Case(*row) for row in rows]
    return pytest.mark.parametrize("case", table, ids=[case.id for case in table])


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


@cases(
    ("it lost its gates", POOR, POOR, POOR, True),
    ("another pod lost its gates", POOR, STRANGER, STRANGER, False),
)
def test_scheduling_gates_wait_for_the_pod_itself(case: Case) -> None:
    check(make_plugin(SchedulingGates), POD, case)


@cases(
    ("an open node came", POOR, None, OPEN, True),
    ("a cordoned node came", POOR, None, CORDONED, False),
    ("a node was uncordoned", POOR, CORDONED, OPEN, True),
    ("a node was cordoned", POOR, OPEN, CORDONED, False),
    ("an open node changed", POOR, OPEN, TAINTED, False),
    ("a cordoned node changed", POOR, CORDONED, CORDONED, False),
)
def test_node_unschedulable_waits_for_a_node_that_opens(case: Case) -> None:
    check(make_plugin(NodeUnschedulable), NODE, case)


@cases(
    ("it tolerates cordons now", POOR, POOR, FORGIVING, True),
    ("it tolerates something else now", POOR, POOR, TOLERANT, False),
    ("another pod tolerates cordons", POOR, STRANGER, STRANGER, False),
)
def test_node_unschedulable_waits_for_the_pod_to_tolerate_cordons(case: Case) -> None:
    check(make_plugin(NodeUnschedulable), POD, case)


@cases(
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
def test_taint_toleration_waits_for_a_node_that_becomes_tolerable(case: Case) -> None:
    check(make_plugin(TaintToleration), NODE, case)


@cases(
    ("its tolerations changed", POOR, POOR, TOLERANT, True),
    ("another pods changed", POOR, STRANGER, STRANGER, False),
)
def test_taint_toleration_waits_for_the_pods_tolerations(case: Case) -> None:
    check(make_plugin(TaintToleration), POD, case)


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


@cases(
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
def test_node_affinity_waits_for_a_node_that_matches(case: Case) -> None:
    check(make_plugin(NodeAffinity), NODE, case)


@cases(
    ("a node that the profile admits came", SELECTS_SSD, None, SSD, True),
    ("a node came that the profile keeps out", POOR, None, HDD, False),
    ("a node that the profile admits now", POOR, HDD, SSD, False),
)
def test_node_affinity_looks_at_the_profiles_demands_on_the_new_node_only(case: Case) -> None:
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
    check(make_plugin(NodeAffinity, args=args()), NODE, case)


WEB = make_pod("rejected", ports=[host_port(80)])


@cases(
    ("its port is free", WEB, make_pod("o", node="n", ports=[host_port(80)]), None, True),
    ("a nominee gave way", WEB, make_pod("o", nominated="n", ports=[host_port(80)]), None, True),
    ("a pod without a node went", WEB, make_pod("o", ports=[host_port(80)]), None, False),
    ("another port is free", WEB, make_pod("o", node="n", ports=[host_port(81)]), None, False),
    (
        "the port of another protocol is free",
        WEB,
        make_pod("o", node="n", ports=[host_port(80, protocol="UDP")]),
        None,
        False,
    ),
    (
        "one address of its port is free",
        WEB,
        make_pod("o", node="n", ports=[host_port(80, ip="10.0.0.1")]),
        None,
        True,
    ),
    (
        "another address is free",
        make_pod("rejected", ports=[host_port(80, ip="10.0.0.2")]),
        make_pod("o", node="n", ports=[host_port(80, ip="10.0.0.1")]),
        None,
        False,
    ),
    ("a pod without ports went", WEB, make_pod("o", node="n"), None, False),
)
def test_node_ports_wait_for_a_pod_that_gives_a_port_back(case: Case) -> None:
    check(make_plugin(NodePorts), POD, case)


HUNGRY = make_pod("rejected", cpu="2", requests={"example.com/gpu": 1})


@cases(
    ("a pod on a node went", HUNGRY, make_pod("o", node="n"), None, True),
    ("a nominee went", HUNGRY, make_pod("o", nominated="n"), None, True),
    ("a pod without a node went", HUNGRY, make_pod("o"), None, False),
    ("it asks for less now", HUNGRY, HUNGRY, make_pod("rejected", cpu="1"), True),
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
def test_fit_waits_for_pods_to_make_room(case: Case) -> None:
    check(make_plugin(NodeResourcesFit), POD, case)


GPU = {"example.com__gpu": 1}


def big(**more: Any) -> Node:
    return make_node("n", **{"cpu": "4", **GPU, **more})


@cases(
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
def test_fit_waits_for_a_node_with_more_of_what_the_pod_wants(case: Case) -> None:
    check(make_plugin(NodeResourcesFit), NODE, case)


def device_class(name: str, resource: str | None) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource)
    )


IMPLICIT = make_pod("rejected", requests={"deviceclass.resource.kubernetes.io/gpus": 1})


@cases(
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
def test_fit_waits_for_a_class_of_devices(case: Case) -> None:
    check(make_plugin(NodeResourcesFit), EventResource.DEVICE_CLASS, case)


def test_without_device_backed_resources_fit_ignores_classes() -> None:
    gates = FeatureGates({"DRAExtendedResource": False})
    registered = make_plugin(NodeResourcesFit, gates=gates).events_to_register()
    assert [registration.event.resource for registration in registered] == [POD, NODE]


def spread_pod(**constraint: Any) -> Pod:
    hard = TopologySpreadConstraint(
        topology_key=ZONE, label_selector=selector({"app": "web"}), **constraint
    )
    return make_pod("rejected", labels={"app": "web"}, spread=[hard])


SPREAD, HONORING = spread_pod(), spread_pod(node_taints_policy="Honor")


def web(**more: Any) -> Pod:
    return make_pod("o", **{"labels": {"app": "web"}, "node": "n", **more})


RELAXED = make_pod(
    "rejected",
    labels={"app": "web"},
    spread=HONORING.spec.topology_spread_constraints,
    tolerations=[Toleration(operator="Exists")],
)


@cases(
    ("a matching pod came", SPREAD, None, web(), True),
    ("a matching pod went", SPREAD, web(), None, True),
    ("a pod of another namespace went", SPREAD, web(namespace="other"), None, False),
    ("a pod without a node came", SPREAD, None, web(node=""), False),
    ("a matching nominee came", SPREAD, None, web(node="", nominated="n"), True),
    ("an unlike pod came", SPREAD, None, web(labels={}), False),
    ("a pod matches now", SPREAD, web(labels={}), web(), True),
    ("a pod does not match any more", SPREAD, web(), web(labels={}), True),
    ("a pod changed in other labels", SPREAD, web(), web(labels={"app": "web", "x": "y"}), False),
    ("a matching pod changed otherwise", SPREAD, web(), web(cpu="1"), False),
    ("it tolerates more, and taints count", HONORING, HONORING, RELAXED, True),
    ("it tolerates more, and taints do not count", SPREAD, HONORING, RELAXED, False),
    ("it has other labels now", SPREAD, SPREAD, make_pod("rejected"), True),
)
def test_spread_waits_for_pods_that_count(case: Case) -> None:
    check(make_plugin(PodTopologySpread), POD, case)


ZONED, OTHER_ZONE = make_node("n", zone="a"), make_node("n", zone="b")


@cases(
    ("a node of a zone came", SPREAD, None, ZONED, True),
    ("a node without a zone came", SPREAD, None, OPEN, False),
    ("a node of a zone went", SPREAD, ZONED, None, True),
    ("a node without a zone went", SPREAD, OPEN, None, False),
    ("a node joined a zone", SPREAD, OPEN, ZONED, True),
    ("a node left its zone", SPREAD, ZONED, OPEN, True),
    ("a node changed its zone", SPREAD, ZONED, OTHER_ZONE, True),
    ("its taints changed", SPREAD, ZONED, make_node("n", zone="a", taints=[TAINT]), True),
    ("it was cordoned", SPREAD, ZONED, make_node("n", zone="a", unschedulable=True), False),
    ("a node without a zone got a taint", SPREAD, OPEN, TAINTED, False),
)
def test_spread_waits_for_nodes_of_the_domains(case: Case) -> None:
    check(make_plugin(PodTopologySpread), NODE, case)


TERM = pod_term(ZONE, selector({"app": "web"}))
FRIEND = make_pod("rejected", affinity=near(TERM))
FOE = make_pod("rejected", labels={"app": "db"}, affinity=away(TERM))
CHOOSY = make_pod("rejected", affinity=near(TERM, pod_term(ZONE, selector({"tier": "1"}))))


@cases(
    ("its own labels changed", FRIEND, FRIEND, FRIEND, True),
    ("a friend came", FRIEND, None, web(), True),
    ("a friend without a node came", FRIEND, None, web(node=""), False),
    ("a nominated friend came", FRIEND, None, web(node="", nominated="n"), True),
    ("a stranger came", FRIEND, None, web(labels={}), False),
    ("a pod that matches one of two terms came", CHOOSY, None, web(), False),
    (
        "a pod that matches both terms came",
        CHOOSY,
        None,
        web(labels={"app": "web", "tier": "1"}),
        True,
    ),
    ("a friend went", FRIEND, web(), None, False),
    ("a pod became a friend", FRIEND, web(labels={}), web(), True),
    ("a friend changed", FRIEND, web(), web(labels={"app": "web", "x": "y"}), False),
    ("a friend of another namespace came", FRIEND, None, web(namespace="other"), False),
    ("a foe went", FOE, web(), None, True),
    ("a foe came", FOE, None, web(), False),
    ("a foe is none any more", FOE, web(), web(labels={}), True),
    (
        "a pod went that did not want it",
        make_pod("rejected", labels={"app": "web"}),
        make_pod("o", node="n", affinity=away(TERM)),
        None,
        True,
    ),
    ("a stranger went", FOE, web(labels={}), None, False),
)
def test_affinity_waits_for_friends_to_come_and_foes_to_go(case: Case) -> None:
    check(make_plugin(InterPodAffinity), POD, case)


@cases(
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
def test_affinity_waits_for_nodes_in_other_domains(case: Case) -> None:
    check(make_plugin(InterPodAffinity), NODE, case)


@cases(
    ("a victim went", POOR, make_pod("o", node="n"), None, False),
    ("a pending pod went", POOR, make_pod("o"), None, False),
)
def test_preemption_leaves_the_decision_to_others(case: Case) -> None:
    check(make_plugin(DefaultPreemption), POD, case)


FEATURED = make_node("n", features=["F"])
RULE = ContainerRestartRule(action="RestartAllContainers")
NEEDY = make_pod("rejected", containers=[Container(name="c", restart_policy_rules=(RULE,))])


@cases(
    ("a node came", NEEDY, None, OPEN, True),
    ("a node declares something else", NEEDY, OPEN, FEATURED, True),
    ("a node changed otherwise", NEEDY, FEATURED, FEATURED, False),
)
def test_declared_features_wait_for_nodes_that_declare_others(case: Case) -> None:
    check(make_plugin(NodeDeclaredFeatures), NODE, case)


@cases(
    ("it needs something else now", NEEDY, NEEDY, POOR, True),
    ("it needs the same", NEEDY, NEEDY, NEEDY, False),
    ("another pod needs something else", NEEDY, make_pod("o"), STRANGER, False),
)
def test_declared_features_wait_for_the_pod_to_need_others(case: Case) -> None:
    check(make_plugin(NodeDeclaredFeatures), POD, case)


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        ((POD, A.DELETE), (EventResource.ASSIGNED_POD, A.DELETE), True),
        ((POD, A.DELETE), (EventResource.UNSCHEDULABLE_POD, A.DELETE), True),
        ((POD, A.DELETE), (POD, A.ADD), False),
        ((NODE, A.ADD), (POD, A.ADD), False),
        ((NODE, A.ADD | A.UPDATE_NODE_TAINT), (NODE, A.UPDATE_NODE_TAINT), True),
        ((EventResource.WILDCARD, A.ALL), (EventResource.CSI_NODE, A.UPDATE), True),
        ((NODE, A.ADD), (NODE, A.ADD | A.DELETE), False),
        ((EventResource.ASSIGNED_POD, A.ADD), (POD, A.ADD), False),
    ],
    ids=[
        "a pod on a node is a pod",
        "a pending pod is a pod",
        "another action",
        "another kind",
        "one of several actions",
        "the wildcard",
        "an action of a larger number is not matched",
        "a pod is not always on a node",
    ],
)
def test_a_registration_matches_events_by_kind_and_action(
    registered: tuple[EventResource, ActionType],
    incoming: tuple[EventResource, ActionType],
    matches: bool,
) -> None:
    assert ClusterEvent(*registered).matches(ClusterEvent(*incoming)) is matches
