"""Everything about a node: what it has, who has it, whom it would take."""

from collections.abc import Sequence

import msgspec
import pytest

from framework.building import make_cycle, make_profile, make_state
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.errors import InputError
from moorage.explain.nodes import explain_node
from moorage.explain.pods import explain_pod
from moorage.explain.report import NodeExplanation
from moorage.framework.extenders import Extender, FilterReply
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod

NODE = make_node(
    "quay",
    zone="north",
    cpu="4",
    memory="8Gi",
    taints=["gpu=yes:NoSchedule", "spot:PreferNoSchedule"],
    allocatable={"example.com/gpu": "2"},
)
TOLERANT = {"tolerations": [{"operator": "Exists"}]}
PLACED = [
    make_pod("b", cpu="1500m", memory="1Gi", node_name="quay", priority=7),
    make_pod("a", cpu="500m", requests={"example.com/gpu": "1"}, node_name="quay"),
]


def explained(*waiting: Pod, limit: int = 200) -> NodeExplanation:
    state = make_state([NODE, make_node("other")], PLACED)
    profile = make_profile(state)
    return explain_node(
        make_cycle(state),
        {profile.name: profile},
        "quay",
        source="live",
        waiting=waiting,
        limit=limit,
    )


def test_what_the_node_has_and_who_takes_it() -> None:
    told = explained()
    assert told.node == "quay"
    assert told.taints == ("gpu=yes:NoSchedule", "spot:PreferNoSchedule")
    assert told.allocatable["memory"] == "8Gi"
    assert told.requested == {"cpu": "2", "memory": "1Gi", "example.com/gpu": "1", "pods": "2"}
    assert told.pods == 2
    assert [(pod.pod, pod.priority) for pod in told.pod_list] == [
        ("default/a", 0),
        ("default/b", 7),
    ]
    assert told.pod_list[1].requests == {"cpu": "1500m", "memory": "1Gi"}
    assert told.labels["topology.kubernetes.io/zone"] == "north"


def test_waiting_pods_are_accepted_or_refused_by_all_who_refuse() -> None:
    told = explained(
        make_pod("fits", cpu="1", spec=TOLERANT),
        make_pod("tainted", cpu="1"),
        make_pod("hopeless", cpu="3"),
        make_pod("closed", spec={**TOLERANT, "schedulingGates": [{"name": "wait"}]}),
    )
    assert told.accepts == ("default/fits",)
    refused = {
        one.pod: {verdict.plugin: verdict.reasons for verdict in one.verdicts}
        for one in told.refusals
    }
    taints = ("node(s) had untolerated taint(s)",)
    assert refused["default/tainted"] == {"TaintToleration": taints}
    assert refused["default/hopeless"] == {
        "TaintToleration": taints,
        "NodeResourcesFit": ("Insufficient cpu",),
    }
    assert set(refused["default/closed"]) == {"SchedulingGates"}
    assert told.waiting == 4


def test_pods_of_other_schedulers_and_deleted_ones_do_not_wait_for_it() -> None:
    told = explained(
        make_pod("foreign", spec={"schedulerName": "somebody"}),
        make_pod("leaving", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    assert (told.waiting, told.accepts, told.refusals) == (0, (), ())


def test_of_many_the_most_important_are_asked_about() -> None:
    pods = [make_pod(f"p{i}", priority=i, spec=TOLERANT) for i in range(5)]
    told = explained(*pods, limit=2)
    assert told.accepts == ("default/p4", "default/p3")
    assert told.waiting == 5


def test_it_says_of_a_pod_what_the_pods_own_explanation_says_of_the_node() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    field = {"key": "metadata.name", "operator": "In", "values": ["other"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    nodes = [make_node("one", cpu="2"), make_node("other", cpu="4")]
    placed = [make_pod("x", labels={"app": "a"}, node_name="one", cpu="1")]
    waiting = [
        make_pod("spread", labels={"app": "a"}, spec={"topologySpreadConstraints": [constraint]}),
        make_pod("pinned", spec={"affinity": affinity}),
        make_pod("second", cpu="1", priority=1),
        make_pod("large", cpu="3"),
    ]
    state = make_state(nodes, placed)
    profile, cycle = make_profile(state), make_cycle(state)
    cycle.nominated.add(make_pod("first", cpu="1", priority=10), "one")

    told = explain_node(cycle, {profile.name: profile}, "one", source="live", waiting=waiting)

    refused = {one.pod: one.verdicts for one in told.refusals}
    assert set(refused) == {f"default/{pod.name}" for pod in waiting}
    for pod in waiting:
        asked = explain_pod(cycle, profile, pod, source="live", nodes=["one"], fixes=False).asked
        against = tuple(one for one in asked[0].verdicts if one.verdict == "rejected")
        assert refused[pod.key] == against


class Outsider(Extender):
    """Takes no node that begins with a letter before p."""

    name = "outsider"
    filters = True

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        bad = {node.name: "wrong letter" for node in nodes if node.name < "p"}
        passing = tuple(node.name for node in nodes if node.name not in bad)
        return FilterReply(passing, failed=bad)


def test_extenders_are_asked_as_they_are_about_a_pod() -> None:
    state = make_state([make_node("old"), make_node("quay")])
    profile = make_profile(state)
    cycle = Cycle(state, VirtualClock(), extenders=[Outsider()])
    pod = make_pod("p")
    for node, takes in (("old", False), ("quay", True)):
        told = explain_node(cycle, {profile.name: profile}, node, source="files", waiting=[pod])
        assert bool(told.accepts) is takes
        of_pod = explain_pod(cycle, profile, pod, source="files", nodes=[node]).asked[0]
        against = tuple(one for one in of_pod.verdicts if one.verdict == "rejected")
        assert sum((one.verdicts for one in told.refusals), ()) == against


def test_a_profile_that_is_asked_for_judges_all_pods() -> None:
    state = make_state([make_node("quay", cpu="1")])
    profile = make_profile(state)
    waiting = [
        make_pod("ours", cpu="1"),
        make_pod("foreign", cpu="1", spec={"schedulerName": "somebody"}),
        make_pod("large", cpu="4", spec={"schedulerName": "somebody"}),
    ]
    told = explain_node(
        make_cycle(state), {}, "quay", source="files", waiting=waiting, profile=profile
    )
    assert told.accepts == ("default/foreign", "default/ours")
    assert [one.pod for one in told.refusals] == ["default/large"]
    assert told.waiting == 3


def test_an_unknown_node_is_one_sentence() -> None:
    state = make_state([NODE])
    with pytest.raises(InputError, match="node nowhere is not one of the 1 nodes known"):
        explain_node(make_cycle(state), {}, "nowhere", source="live")


def test_a_node_can_be_written_as_json_and_read_again() -> None:
    told = explained(make_pod("p"))
    assert msgspec.json.decode(msgspec.json.encode(told), type=NodeExplanation) == told
