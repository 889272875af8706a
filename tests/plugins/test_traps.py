"""Behaviour that a re-implementer is likely to get wrong (parity/summary.md, SUM-033..041).

The numbers are worked out by hand from upstream's rules, so they hold for the naive reference too.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from framework.asking import Asked, ask
from framework.building import make_cycle, make_profile, make_state, only
from moorage.cluster.state import ClusterState
from moorage.engine.decisions import Unschedulable
from moorage.framework.status import Code, Status
from moorage.model.affinity import Affinity
from moorage.model.meta import Json, ObjectMeta
from moorage.model.node import Node
from moorage.model.node_selector import NodeSelectorTerm
from moorage.model.pod import Container, Pod, ResourceRequirements, TopologySpreadConstraint
from moorage.model.storage import PersistentVolumeClaim
from moorage.model.taints import Taint, Toleration
from moorage.model.volumes import (
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolume,
    Volume,
)
from reference.objects import (
    HOSTNAME,
    ZONE,
    away,
    make_namespace,
    make_node,
    make_pod,
    near,
    node_affinity,
    node_term,
    pod_term,
    pod_terms,
    selector,
)

GPUS: dict[str, Any] = {"example.com__gpu": 4}


def asked(state: ClusterState, pod: Pod, document: Json) -> Asked:
    return ask(make_cycle(state), make_profile(state, document), pod)


def raw(nodes: Sequence[Node], pod: Pod, document: Json, pods: Sequence[Pod] = ()) -> list[int]:
    """The raw scores of the one plugin that scores, by node."""
    result = asked(make_state(nodes, pods), pod, document)
    (scores,) = result.raw.values()
    return [scores[node.name] for node in nodes]


def weighted(
    nodes: Sequence[Node], pod: Pod, document: Json, pods: Sequence[Pod] = ()
) -> list[int]:
    result = asked(make_state(nodes, pods), pod, document)
    (scores,) = result.weighted.values()
    return [scores[node.name] for node in nodes]


# SUM-033


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


# SUM-034


def test_a_request_larger_than_the_whole_node_cannot_be_cured_by_eviction() -> None:
    state = make_state(
        [make_node("full"), make_node("small", cpu="1")],
        [make_pod("there", node="full", cpu="3", priority=0)],
    )
    pod = make_pod("p", cpu="2", priority=10)
    result = asked(state, pod, only("NodeResourcesFit"))
    assert [refused and refused[1].code for refused in result.first.values()] == [
        Code.UNSCHEDULABLE.value,
        Code.UNRESOLVABLE.value,
    ]
    decision, _ = make_cycle(state).decide(make_profile(state), pod)
    assert isinstance(decision, Unschedulable)
    assert decision.nominated_node == "full"


def test_one_incurable_shortage_makes_the_node_incurable_and_all_are_named() -> None:
    state = make_state(
        [make_node("n", memory="1Gi", pods=1)], [make_pod("there", node="n", cpu="3")]
    )
    result = asked(state, make_pod("p", cpu="2", memory="2Gi"), only("NodeResourcesFit"))
    assert result.first["n"] == (
        "NodeResourcesFit",
        (
            Code.UNRESOLVABLE.value,
            ("Too many pods", "Insufficient cpu", "Insufficient memory"),
        ),
    )


def test_a_pod_that_asks_for_nothing_needs_only_a_place() -> None:
    state = make_state([make_node("n", pods=2)], [make_pod("there", node="n", cpu="9")])
    assert asked(state, make_pod("p"), only("NodeResourcesFit")).first == {"n": None}


# SUM-035

FIT = only("NodeResourcesFit")
BALANCED = only("NodeResourcesBalancedAllocation")


def test_containers_without_requests_are_scored_with_100m_and_200mi() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    assert raw(nodes, make_pod("p"), FIT) == [90]
    two = make_pod("p", containers=[Container(name="a"), Container(name="b")])
    assert raw(nodes, two, FIT) == [80]
    assert raw(nodes, make_pod("p"), FIT, [make_pod("there", node="n")]) == [80]


def test_fit_scores_containers_even_if_the_pod_level_says_otherwise() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    pod = make_pod("p", pod_level={"cpu": "500m", "memory": str(1000 * 1024**2)})
    assert raw(nodes, pod, FIT) == [90], "100m and 200Mi of the container, not the pod's 500m"
    result = asked(make_state(nodes, [make_pod("there", node="n", cpu="600m")]), pod, FIT)
    assert result.first["n"] is not None, "filtering counts the pod's 500m"


def test_pods_on_nodes_count_for_their_pod_level_requests_when_others_are_scored() -> None:
    nodes = [make_node("n", cpu="1", memory=str(2000 * 1024**2))]
    there = make_pod("there", node="n", pod_level={"cpu": "500m", "memory": str(1000 * 1024**2)})
    assert raw(nodes, make_pod("p"), FIT, [there]) == [40]


def test_balance_uses_plain_requests_and_honours_the_pod_level() -> None:
    nodes = [make_node("n", cpu="1", memory=str(1000 * 1024**2))]
    assert asked(make_state(nodes), make_pod("p"), BALANCED).raw == {}, "no requests, no score"
    pod = make_pod("p", pod_level={"cpu": "500m"})
    # 50% against 0%: a deviation of 0.25, so 75 with the pod and 100 without it.
    assert raw(nodes, pod, BALANCED) == [50 + (50 + 75 - 100) // 2]


# SUM-036


@pytest.mark.parametrize(
    ("cpu", "memory", "there", "expected"),
    [
        ("1", "1Gi", None, 75),
        ("2", None, None, 50 + (50 + 75 - 100) // 2),
        ("2", None, ("0", "2Gi"), 50 + (50 + 100 - 75) // 2),
        ("4", "1Gi", ("0", "3Gi"), 50 + (50 + 100 - 62) // 2),
    ],
    ids=["evenly", "one-sided", "fills the gap", "rounds each balance down"],
)
def test_balance_is_scored_by_how_much_the_pod_improves_it(
    cpu: str, memory: str | None, there: tuple[str, str] | None, expected: int
) -> None:
    nodes = [make_node("n", cpu="4", memory="4Gi")]
    pods = [make_pod("there", node="n", cpu=there[0], memory=there[1])] if there else []
    assert raw(nodes, make_pod("p", cpu=cpu, memory=memory), BALANCED, pods) == [expected]


def test_more_than_two_resources_are_balanced_by_their_standard_deviation() -> None:
    document = BALANCED | {
        "pluginConfig": [
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": [{"name": n} for n in ("cpu", "memory", "example.com/gpu")]},
            }
        ]
    }
    nodes = [make_node("n", cpu="4", memory="4Gi", **GPUS)]
    pod = make_pod("p", cpu="4", requests={"example.com/gpu": 2})
    # 100 %, 0 % and 50 %: the deviation is the square root of 1/6, about 0.408.
    assert raw(nodes, pod, document) == [50 + (50 + 59 - 100) // 2]


def test_over_commitment_counts_as_full() -> None:
    nodes = [make_node("n", cpu="1", memory="4Gi")]
    document: Json = only("NodeResourcesBalancedAllocation")
    there = make_pod("there", node="n", cpu="9", memory="4Gi")
    assert raw(nodes, make_pod("p", cpu="1"), document, [there]) == [75]


def resources(strategy: str, *names: str, shape: Any = None) -> Json:
    scoring: Json = {"type": strategy, "resources": [{"name": n, "weight": 1} for n in names]}
    if shape is not None:
        scoring["requestedToCapacityRatio"] = {
            "shape": [{"utilization": x, "score": y} for x, y in shape]
        }
    args = {"scoringStrategy": scoring}
    return only("NodeResourcesFit") | {"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]}


# SUM-037


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("LeastAllocated", (66 + 0) // 2), ("MostAllocated", (33 + 100) // 2)],
)
def test_least_and_most_allocated_cut_at_every_step(strategy: str, expected: int) -> None:
    nodes = [make_node("n", cpu="3", memory="1Gi")]
    pod = make_pod("p", cpu="1", memory="1Gi")
    assert raw(nodes, pod, resources(strategy, "cpu", "memory")) == [expected]


def test_the_ratio_strategy_rounds_and_leaves_out_what_scores_zero() -> None:
    nodes = [make_node("n", cpu="4", memory="4Gi")]
    pod = make_pod("p", cpu="1", memory="3Gi")
    ratio = "RequestedToCapacityRatio"
    # cpu 25 % and memory 75 %; on this line they score 25 and 75.
    line = [(0, 0), (100, 10)]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=line)) == [50]
    # On this one cpu scores 0, so only memory counts.
    late = [(50, 0), (100, 10)]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=late)) == [50]
    # 33 and 100 are 66.5 in the mean: rounded up, not cut.
    pod = make_pod("p", cpu="1", memory="4Gi")
    nodes = [make_node("n", cpu="3", memory="4Gi")]
    assert raw(nodes, pod, resources(ratio, "cpu", "memory", shape=line)) == [67]


def test_an_over_committed_resource_scores_as_if_it_were_full() -> None:
    nodes = [make_node("n", cpu="1", memory="4Gi")]
    there = [make_pod("there", node="n", memory="1Gi"), make_pod("more", node="n", memory="1Gi")]
    # Both count for 100m of cpu that they do not ask for, so scoring sees more than there is.
    pod = make_pod("p", cpu="900m", memory="2Gi")
    assert raw(nodes, pod, resources("LeastAllocated", "cpu"), there) == [0]
    assert raw(nodes, pod, resources("MostAllocated", "cpu"), there) == [100]
    shape = [(0, 0), (99, 0), (100, 7)]
    assert raw(nodes, pod, resources("RequestedToCapacityRatio", "cpu", shape=shape), there) == [70]


def test_a_falling_line_is_cut_towards_zero_between_its_corners() -> None:
    nodes = [make_node("n", cpu="3")]
    pod = make_pod("p", cpu="1")
    # From 100 down to 0 over 100 %: at 33 % 100 - 33.
    falling = [(0, 10), (100, 0)]
    assert raw(nodes, pod, resources("RequestedToCapacityRatio", "cpu", shape=falling)) == [67]


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_resources_a_node_lacks_or_the_pod_does_not_want_take_no_part(strategy: str) -> None:
    nodes = [make_node("n", cpu="4", **GPUS)]
    pod = make_pod("p", cpu="2")
    document = resources(strategy, "cpu", "example.com/gpu", "ephemeral-storage", "pods")
    assert raw(nodes, pod, document) == [50]


def test_the_number_of_pods_is_no_resource_to_balance() -> None:
    args = {"resources": [{"name": "cpu"}, {"name": "pods"}]}
    document = BALANCED | {
        "pluginConfig": [{"name": "NodeResourcesBalancedAllocation", "args": args}]
    }
    assert raw([make_node("n")], make_pod("p", cpu="2"), document) == [75]


# SUM-038

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


# SUM-039

AFFINITY = only("InterPodAffinity")


@pytest.mark.parametrize(
    ("found", "near_other"),
    [
        (selector({"team": "red"}), False),
        (selector({"team": "blue"}), True),
        (selector(), True),
        (selector(None, ("team", "DoesNotExist", [])), True),
        (selector(None, ("team", "NotIn", ["blue"])), True),
        (selector(None, ("team", "Exists", [])), True),
        (None, False),
    ],
    ids=[
        "a selector that does not find the namespace",
        "a selector that finds it",
        "an empty selector finds all",
        "one that no labels at all satisfy matches everywhere",
        "not-in is such a one",
        "one that finds the namespace by its labels",
        "none means the pod's own namespace",
    ],
)
def test_a_namespace_selector_is_still_matched_against_no_labels(
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


# SUM-040


def test_a_terminating_pod_does_not_count_in_spreading() -> None:
    nodes = [make_node("a", zone="x"), make_node("b", zone="y")]
    hard = TopologySpreadConstraint(topology_key=ZONE, label_selector=selector({"app": "web"}))
    pod = make_pod("p", labels={"app": "web"}, spread=[hard])
    here = asked(make_state(nodes, [web("1", "a")]), pod, SPREAD)
    assert here.first["a"] is not None
    leaving = asked(make_state(nodes, [web("1", "a", terminating=True)]), pod, SPREAD)
    assert leaving.first["a"] is None


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


# SUM-041


def test_a_claim_for_one_pod_only_is_refused_everywhere_and_can_be_preempted() -> None:
    claim = PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="default"),
        spec=PersistentVolumeClaimSpec(access_modes=("ReadWriteOncePod",)),
    )
    source = PersistentVolumeClaimVolume(claim_name="c")
    volumes = (Volume(name="v", persistent_volume_claim=source),)

    def claiming(name: str, node: str = "") -> Pod:
        pod = make_pod(name, node=node)
        spec = type(pod.spec)(
            node_name=node, containers=pod.spec.containers, volumes=volumes, priority=0
        )
        return Pod(metadata=pod.metadata, spec=spec)

    state = make_state([make_node("a"), make_node("b")], [claiming("there", "a")], [claim])
    result = asked(state, claiming("p"), only("VolumeRestrictions"))
    refused = (
        "VolumeRestrictions",
        (
            Code.UNSCHEDULABLE.value,
            (
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod "
                "access mode already in-use by another pod",
            ),
        ),
    )
    assert result.first == {"a": refused, "b": refused}


# Node affinity, features and gates


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


@pytest.mark.parametrize(
    ("container", "host", "declared", "fits"),
    [
        (Container(name="c"), False, (), True),
        (Container(name="c"), True, (), False),
        (Container(name="c"), True, ("UserNamespacesHostNetworkSupport", "Other"), True),
    ],
    ids=["nothing special", "not declared", "declared"],
)
def test_features_that_a_pod_implies_must_be_declared(
    container: Container, host: bool, declared: tuple[str, ...], fits: bool
) -> None:
    pod = make_pod(
        "p", containers=[container], host_network=host, host_users=False if host else None
    )
    state = make_state([make_node("n", features=declared)])
    assert (asked(state, pod, only("NodeDeclaredFeatures")).first["n"] is None) is fits


def test_sidecars_count_beside_containers_and_init_containers_by_the_largest() -> None:
    def container(name: str, cpu: str, *, sidecar: bool = False) -> Container:
        return Container(
            name=name,
            resources=ResourceRequirements(requests={"cpu": cpu}),
            restart_policy="Always" if sidecar else None,
        )

    pod = make_pod(
        "p",
        containers=[container("main", "1")],
        init_containers=[
            container("early", "3"),
            container("proxy", "1", sidecar=True),
            container("late", "2"),
        ],
    )
    # Running: 1 + 1. Starting: 3 alone, then 2 beside the proxy.
    assert pod.requests.incoming["cpu"] == 3000
    for cpu, fits in (("3", True), ("2999m", False)):
        state = make_state([make_node("n", cpu=cpu)])
        assert (asked(state, pod, FIT).first["n"] is None) is fits
