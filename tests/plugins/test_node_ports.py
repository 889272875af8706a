"""NodePorts: are the host ports that a pod wants free on the node?"""

from typing import Any

from framework.building import make_plugin
from moorage.framework.cluster_events import (
    ActionType,
    EventResource,
)
from moorage.model.pod import (
    Pod,
)
from moorage.plugins.node_ports import NodePorts
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
    host_port,
    make_node,
    make_pod,
)

ASSIGNED, NODE, A = EventResource.ASSIGNED_POD, EventResource.NODE, ActionType
TAKEN = "node(s) didn't have free ports for the requested pod ports"
N = [make_node("n")]


def there(*ports: Any) -> list[Pod]:
    return [make_pod("there", node="n", ports=ports)]


def wanting(*ports: Any) -> Pod:
    return make_pod("p", ports=ports)


@table(
    FilterCase("no ports", make_pod("p"), N, {"n": FITS}, there(host_port(80))),
    FilterCase("free", wanting(host_port(80)), N, {"n": FITS}),
    FilterCase("taken", wanting(host_port(80)), N, {"n": TAKEN}, there(host_port(80))),
    FilterCase("another port", wanting(host_port(81)), N, {"n": FITS}, there(host_port(80))),
    FilterCase(
        "another protocol",
        wanting(host_port(80, protocol="UDP")),
        N,
        {"n": FITS},
        there(host_port(80)),
    ),
    FilterCase(
        "another address",
        wanting(host_port(80, ip="10.0.0.1")),
        N,
        {"n": FITS},
        there(host_port(80, ip="10.0.0.2")),
    ),
    FilterCase(
        "all addresses include one",
        wanting(host_port(80)),
        N,
        {"n": TAKEN},
        there(host_port(80, ip="10.0.0.2")),
    ),
    FilterCase(
        "one address of all",
        wanting(host_port(80, ip="10.0.0.2")),
        N,
        {"n": TAKEN},
        there(host_port(80, ip="0.0.0.0")),
    ),
    FilterCase(
        "one of two is taken",
        wanting(host_port(80), host_port(443)),
        N,
        {"n": TAKEN},
        there(host_port(443)),
    ),
    FilterCase(
        "each node for itself",
        wanting(host_port(80)),
        [make_node("n"), make_node("m")],
        {"n": TAKEN, "m": FITS},
        there(host_port(80)),
    ),
)
def test_nodes_without_the_wanted_ports_are_refused(case: FilterCase) -> None:
    check_filter(NodePorts, case)


def test_it_registers_the_events_that_upstreams_does() -> None:
    assert registered(NodePorts) == [(ASSIGNED, A.DELETE, True), (NODE, A.ADD, False)]


WEB = make_pod("rejected", ports=[host_port(80)])


@hints(
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
def test_node_ports_wait_for_a_pod_that_gives_a_port_back(case: HintCase) -> None:
    check_hint(make_plugin(NodePorts), ASSIGNED, case)
