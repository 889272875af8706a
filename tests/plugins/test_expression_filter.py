"""ExpressionFilter: a pod may use the nodes of which a CEL expression is true."""

from collections.abc import Callable

import pytest

from framework.building import make_cycle, make_plugin, make_profile, make_state, only
from moorage.config.args import ExpressionFilterArgs
from moorage.engine.decisions import Unschedulable
from moorage.errors import ConfigError
from moorage.framework.cluster_events import ActionType, EventResource
from moorage.framework.status import Code
from moorage.model.meta import Json
from moorage.model.pod import Pod
from moorage.plugins.expressions import ExpressionFilter
from moorage.testing import check_plugin, make_node, make_pod
from plugins.tables import FITS, asked

A, NODE = ActionType, EventResource.NODE
REFUSED = "node(s) didn't satisfy the expression of ExpressionFilter"
FAILED = "node(s) couldn't be judged by the expression of ExpressionFilter: "

NODES = [
    make_node("fast", labels={"disk": "ssd"}, cpu="8", allocatable={"gpu.io/x": "2"}),
    make_node("slow", labels={"disk": "hdd"}, cpu="2"),
    make_node("bare", cpu="4"),
]
GUESTS = [
    make_pod("one", node_name="fast", cpu="7", labels={"app": "web"}),
    make_pod("two", node_name="slow", cpu="500m", labels={"app": "db"}),
]
POD = make_pod("ship", cpu="1500m", labels={"wants": "ssd"}, priority=5)


def document(expression: str, message: str = "") -> Json:
    args = {"expression": expression, "message": message}
    return only("ExpressionFilter") | {"pluginConfig": [{"name": "ExpressionFilter", "args": args}]}


def told(expression: str, pod: Pod = POD) -> dict[str, str | None]:
    found = asked(make_state(NODES, GUESTS), pod, document(expression)).first
    return {
        name: FITS if answer is None else ", ".join(answer[1].reasons)
        for name, answer in found.items()
    }


@pytest.mark.parametrize(
    ("expression", "fast", "slow", "bare"),
    [
        pytest.param("true", FITS, FITS, FITS, id="everywhere"),
        pytest.param("false", REFUSED, REFUSED, REFUSED, id="nowhere"),
        pytest.param(
            'node.labels.disk == "ssd"',
            FITS,
            REFUSED,
            FAILED + "no such key: disk",
            id="a label that is missing is the failure of that node",
        ),
        pytest.param(
            'has(node.labels.disk) && node.labels.disk == "ssd"', FITS, REFUSED, REFUSED, id="has"
        ),
        pytest.param(
            'node.labels[?"disk"].orValue("ssd") == "ssd"', FITS, REFUSED, FITS, id="a default"
        ),
        pytest.param(
            'node.labels.disk == "hdd" || node.name == "bare"',
            REFUSED,
            FITS,
            FITS,
            id="one side settles it, though the other fails",
        ),
        pytest.param(
            "node.labels[?'disk'].orValue('') == pod.labels.wants",
            FITS,
            REFUSED,
            REFUSED,
            id="what the pod says",
        ),
        pytest.param(
            "node.allocatable.cpu - node.requested.cpu >= pod.requests.cpu",
            REFUSED,
            FITS,
            FITS,
            id="cpu in thousandths",
        ),
        pytest.param(
            'node.allocatable["gpu.io/x"] > 0', FITS, REFUSED, REFUSED, id="none of it is 0"
        ),
        pytest.param('"gpu.io/x" in node.allocatable', FITS, REFUSED, REFUSED, id="there is some"),
        pytest.param(
            '!node.pods.exists(p, p.labels.app == "web")',
            REFUSED,
            FITS,
            FITS,
            id="the pods on it",
        ),
        pytest.param("size(node.pods) == 0", REFUSED, REFUSED, FITS, id="their number"),
        pytest.param(
            "pod.labels.nobody == node.name",
            *[FAILED + "no such key: nobody"] * 3,
            id="what the pod does not have",
        ),
        pytest.param(
            '100 / node.allocatable["gpu.io/x"] == 50',
            FITS,
            FAILED + "division by zero",
            FAILED + "division by zero",
            id="a division by zero",
        ),
        pytest.param(
            "node.allocatable.memory * node.allocatable.memory > 0",
            *[FAILED + "integer overflow"] * 3,
            id="a number beyond 64 bits",
        ),
        pytest.param("node.capacity.cpu >= 4000", FITS, REFUSED, FITS, id="capacity"),
        pytest.param("node.annotations.size() == 0", FITS, FITS, FITS, id="annotations"),
        pytest.param("pod.priority > 4 && pod.name == 'ship'", FITS, FITS, FITS, id="the pod only"),
        pytest.param(
            "node.requested.all(r, node.requested[r] < 1000)",
            REFUSED,
            FITS,
            FITS,
            id="all resources",
        ),
    ],
)
def test_nodes_are_refused_of_which_the_expression_is_not_true(
    expression: str, fast: str | None, slow: str | None, bare: str | None
) -> None:
    assert told(expression) == {"fast": fast, "slow": slow, "bare": bare}


def test_an_expression_that_costs_too_much_fails() -> None:
    thousand = "[" + ",".join(["1"] * 100) + "]"
    loops = f"{thousand}.all(a, {thousand}.all(b, {thousand}.all(c, size(node.pods) + a < 0)))"
    cheap_enough = told(loops)
    assert set(cheap_enough.values()) == {REFUSED}, "the first round settles it"
    costly = told(loops.replace("< 0", ">= 0"))
    assert set(costly.values()) == {FAILED + "operation cancelled: actual cost limit exceeded"}


def test_a_pod_that_makes_the_parts_that_are_evaluated_once_costly_gets_the_same_answers() -> None:
    notes = {"notes": "x" * 100_000}
    pod = make_pod("ship", metadata={"annotations": notes})
    compared = " && ".join(['pod.annotations.notes != pod.annotations.notes + "y"'] * 8)
    assert set(told(f'{compared} && node.name != "bare"', pod).values()) == {FITS, REFUSED}


def test_the_message_of_the_configuration_is_the_reason() -> None:
    state = make_state(NODES)
    profile = make_profile(state, document("size(node.pods) > 0", "node(s) had no company"))
    decision, _ = make_cycle(state).attempt(profile, POD)
    assert isinstance(decision, Unschedulable)
    assert "3 node(s) had no company" in decision.message


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("node.labels.disk == 'x'", Code.UNRESOLVABLE),
        ("node.requested.cpu < 0", Code.UNSCHEDULABLE),
        ("size(node.pods) < 0", Code.UNSCHEDULABLE),
    ],
)
def test_evicting_pods_helps_only_where_the_expression_looks_at_pods(
    expression: str, code: Code
) -> None:
    found = asked(make_state(NODES, GUESTS), POD, document(expression)).first
    assert {answer[1].code for answer in found.values() if answer is not None} == {code.value}


def _plugin(expression: str) -> ExpressionFilter:
    plugin: ExpressionFilter = make_plugin(ExpressionFilter, args=ExpressionFilterArgs(expression))
    return plugin


@pytest.mark.parametrize(
    ("expression", "events"),
    [
        ("node.labels.x == 'y'", [(NODE, A.ADD | A.UPDATE_NODE_LABEL)]),
        ("node.annotations.x == 'y'", [(NODE, A.ADD | A.UPDATE_NODE_ANNOTATION)]),
        ("node.allocatable.cpu > 0", [(NODE, A.ADD | A.UPDATE_NODE_ALLOCATABLE)]),
        (
            "node.requested.cpu > pod.requests.cpu",
            [
                (NODE, A.ADD),
                (EventResource.ASSIGNED_POD, A.ALL),
                (EventResource.TARGET_POD, A.UPDATE),
            ],
        ),
    ],
)
def test_only_changes_of_what_is_read_let_a_pod_try_again(
    expression: str, events: list[tuple[EventResource, ActionType]]
) -> None:
    registered = _plugin(expression).events_to_register() or ()
    assert [(r.event.resource, r.event.action) for r in registered] == events


@pytest.mark.parametrize(
    "expression",
    [
        "node.labels.?disk.orValue('') == pod.labels.?app.orValue('')",
        "node.allocatable.cpu - node.requested.cpu >= pod.requests.cpu",
        "node.pods.all(p, p.namespace == pod.namespace)",
        "size(node.pods) < 3 && node.name != 'node-1'",
        "pod == pod && node.annotations.size() == 0",
    ],
)
def test_an_expression_passes_the_checks_of_plugins(expression: str) -> None:
    check_plugin(ExpressionFilter, ExpressionFilterArgs(expression), rounds=2)


@pytest.mark.parametrize(
    ("expression", "reads"), [("node.labels.x == 'y'", 1), ("node.annotations.x == 'y'", 0)]
)
def test_answers_are_kept_only_where_changes_are_followed(expression: str, reads: int) -> None:
    assert len(_plugin(expression).reads) == reads


@pytest.mark.parametrize(
    "make", [lambda: _plugin(""), lambda: make_profile(make_state(), only("ExpressionFilter"))]
)
def test_without_an_expression_there_is_no_plugin(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError, match=r"args\.expression: Required value: a CEL expression"):
        make()


def test_a_node_with_an_unusable_capacity_fails_alone() -> None:
    odd = make_node("odd", status={"capacity": {"cpu": "many"}})
    found = asked(make_state([odd, *NODES]), POD, document("node.capacity.cpu > 0")).first
    assert found["fast"] is None
    assert found["odd"] is not None
    assert "capacity: cpu: 'many' is not a quantity" in found["odd"][1].reasons[0]
