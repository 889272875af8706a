"""The rules for extenders' answers, with extenders that are plain objects."""

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from framework.building import NOW, make_profile, make_state
from moorage.cluster.state import ClusterState
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind, Decision, Unschedulable
from moorage.errors import ExtenderError
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import (
    Extender,
    FilterReply,
    MetaVictims,
    bind_by_extender,
    uses_any,
)
from moorage.framework.plugin import Candidate
from moorage.framework.status import SKIP, Code
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod


class Fake(Extender):
    """Answers what it was made with; an exception among the answers is raised."""

    def __init__(
        self,
        *,
        passes: Sequence[str] | ExtenderError | None = None,
        as_objects: bool = False,
        failed: Mapping[str, str] | None = None,
        unresolvable: Mapping[str, str] | None = None,
        gives: Mapping[str, int] | ExtenderError | None = None,
        victims: Mapping[str, MetaVictims] | ExtenderError | None = None,
        bound: ExtenderError | bool = False,
        weight: int = 1,
        ignorable: bool = False,
        managed: frozenset[str] = frozenset(),
    ) -> None:
        self.name = "http://fake"
        self.weight, self.ignorable = weight, ignorable
        self.passes, self.as_objects = passes, as_objects
        self.failed, self.unresolvable = failed or {}, unresolvable or {}
        self.gives, self.victims, self.bound, self.managed = gives, victims, bound, managed
        self.filters = passes is not None
        self.prioritizes = gives is not None
        self.preempts = victims is not None
        self.binds = bool(bound)
        self.asked: list[list[str]] = []

    def is_interested(self, pod: Pod) -> bool:
        return not self.managed or uses_any(pod, self.managed)

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        self.asked.append([node.name for node in nodes])
        if isinstance(self.passes, ExtenderError):
            raise self.passes
        return FilterReply(
            tuple(self.passes or ()), self.as_objects, self.failed, self.unresolvable
        )

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        if isinstance(self.gives, ExtenderError):
            raise self.gives
        return tuple((self.gives or {}).items())

    def preempt(self, pod: Pod, candidates: Sequence[Candidate]) -> Mapping[str, MetaVictims]:
        self.asked.append([candidate.node_name for candidate in candidates])
        if isinstance(self.victims, ExtenderError):
            raise self.victims
        return self.victims or {}

    async def bind(self, pod: Pod, node_name: str) -> None:
        self.asked.append([node_name])
        if isinstance(self.bound, ExtenderError):
            raise self.bound


BROKEN = ExtenderError("it broke")


def nodes(*names: str) -> ClusterState:
    return make_state([make_node(name, cpu="4") for name in names])


def decide(
    state: ClusterState,
    *extenders: Extender,
    pod: Pod | None = None,
    seed: int = 0,
    percentage: int | None = None,
) -> tuple[Decision, AttemptResult | None]:
    cycle = Cycle(state, VirtualClock(NOW), extenders=extenders, random=Random(seed))
    return cycle.decide(make_profile(state, percentage=percentage), pod or make_pod("p"))


def place(state: ClusterState, *extenders: Extender, pod: Pod | None = None, seed: int = 0) -> str:
    decision, _ = decide(state, *extenders, pod=pod, seed=seed)
    assert isinstance(decision, Bind), decision
    return decision.node_name


def refusal(
    state: ClusterState,
    *extenders: Extender,
    pod: Pod | None = None,
    percentage: int | None = None,
) -> Unschedulable:
    decision, _ = decide(state, *extenders, pod=pod, percentage=percentage)
    assert isinstance(decision, Unschedulable), decision
    return decision


# Filter.


def test_the_second_extender_is_asked_about_what_the_first_left() -> None:
    first, second = Fake(passes=["n2", "n3"]), Fake(passes=["n3"])
    assert place(nodes("n1", "n2", "n3"), first, second) == "n3"
    assert sorted(first.asked[0]) == ["n1", "n2", "n3"]
    assert sorted(second.asked[0]) == ["n2", "n3"]


def test_nobody_is_asked_about_nothing() -> None:
    second = Fake(passes=["n1"])
    refusal(nodes("n1"), Fake(passes=[]), second)
    assert second.asked == []


def test_reasons_of_extenders_are_told_and_count_as_their_own_plugin() -> None:
    one = Fake(passes=[], failed={"n1": "loud", "n3": "loud"}, unresolvable={"n2": "far"})
    failure = refusal(nodes("n1", "n2", "n3"), one)
    assert failure.message.startswith("0/3 nodes are available: 1 far, 2 loud. ")
    assert failure.unschedulable_plugins == {"Extender"}


def test_unresolvable_goes_before_failed() -> None:
    one = Fake(passes=[], failed={"n1": "loud"}, unresolvable={"n1": "far"})
    decision, attempt = decide(nodes("n1"), one)
    assert isinstance(decision, Unschedulable)
    assert attempt is not None
    assert attempt.status(0).code is Code.UNRESOLVABLE
    assert attempt.status(0).reasons == ("far",)


def test_a_node_dropped_without_a_reason_is_not_told_of() -> None:
    failure = refusal(nodes("n1", "n2"), Fake(passes=[], failed={"n1": "loud"}))
    assert failure.message.startswith("0/2 nodes are available: 1 loud. ")


def test_reasons_of_nodes_that_do_not_exist_are_told() -> None:
    failure = refusal(nodes("n1"), Fake(passes=[], failed={"n9": "who?"}))
    assert failure.message.startswith("0/1 nodes are available: 1 who?. ")


def test_an_extender_may_give_another_reason_for_a_node_that_a_plugin_refused() -> None:
    state = make_state([make_node("small", cpu="1"), make_node("large", cpu="4")])
    one = Fake(passes=[], failed={"small": "loud", "large": "loud"})
    failure = refusal(state, one, pod=make_pod("p", cpu="2"))
    assert failure.message.startswith("0/2 nodes are available: 2 loud. ")
    assert failure.unschedulable_plugins == {"Extender", "NodeResourcesFit"}


def test_names_that_nobody_asked_about_are_an_error() -> None:
    text = (
        'extender "http://fake" claims a filtered node "n9" which is not found in the input '
        "node list"
    )
    with pytest.raises(ExtenderError, match=text):
        decide(nodes("n1"), Fake(passes=["n9"]))


def test_errors_fail_the_attempt_unless_they_may_be_ignored() -> None:
    with pytest.raises(ExtenderError, match=r"^it broke$"):
        decide(nodes("n1"), Fake(passes=BROKEN))
    assert place(nodes("n1"), Fake(passes=BROKEN, ignorable=True)) == "n1"
    assert place(nodes("n1"), Fake(passes=["n9"], ignorable=True)) == "n1"


def test_only_pods_that_use_a_managed_resource_concern_the_extender() -> None:
    state = make_state([make_node("n1", allocatable={"example.com/d": "4"})])
    one = Fake(passes=[], managed=frozenset({"example.com/d"}))
    assert place(state, one) == "n1"
    refusal(state, one, pod=make_pod("p", requests={"example.com/d": "1"}))


def test_where_extenders_filter_one_feasible_node_is_not_enough() -> None:
    state = nodes("n1", "n2", "n3")
    unscored = {"plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}
    unscored["plugins"]["multiPoint"]["enabled"] = [
        {"name": name} for name in ("PrioritySort", "DefaultBinder", "NodeName")
    ]
    one = Fake(passes=["n3"])
    cycle = Cycle(state, VirtualClock(NOW), extenders=(one,))
    decision, _ = cycle.decide(make_profile(state, unscored), make_pod("p"))
    assert isinstance(decision, Bind)
    assert len(one.asked[0]) == 3


def test_a_search_that_ended_early_says_nothing_of_the_other_nodes() -> None:
    names = [f"n{i}" for i in range(150)]
    everybody = dict.fromkeys(names, "loud")

    class Refusing(Fake):
        def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
            return FilterReply(failed={node.name: everybody[node.name] for node in nodes})

    failure = refusal(nodes(*names), Refusing(passes=[]), percentage=10)
    assert failure.message.startswith("0/150 nodes are available: 100 loud. ")


def test_a_nominated_node_is_taken_only_if_the_extenders_agree() -> None:
    pod = make_pod("p", status={"nominatedNodeName": "n1"})
    assert place(nodes("n1", "n2"), Fake(passes=["n1"]), pod=pod) == "n1"
    picky = Fake(passes=["n2"], failed={"n1": "loud"})
    # Named without having been asked about: an error, which on this way only means no.
    assert place(nodes("n1", "n2"), picky, pod=pod) == "n2"
    assert picky.asked[0] == ["n1"]


# Node objects.


def test_nodes_that_come_back_as_objects_are_scored_as_if_they_were_empty() -> None:
    state = make_state(
        [make_node("large", cpu="8"), make_node("small", cpu="2")],
        [make_pod("busy", cpu="7", node_name="large")],
    )
    pod = make_pod("p", cpu="1")
    both = ["large", "small"]
    assert place(state, Fake(passes=both), pod=pod) == "small"
    assert place(state, Fake(passes=both, as_objects=True), pod=pod) == "large"
    # Nothing of it is kept for the next pod.
    assert place(state, Fake(passes=both), pod=make_pod("q", cpu="1")) == "small"


def test_objects_may_bring_back_a_node_that_plugins_refused() -> None:
    state = make_state([make_node("small", cpu="1"), make_node("large", cpu="4")])
    one = Fake(passes=["small"], as_objects=True)
    assert place(state, one, pod=make_pod("p", cpu="2")) == "small"


# Prioritize.


def test_points_count_tenfold_times_the_weight() -> None:
    state = make_state([make_node("large", cpu="64"), make_node("small", cpu="4")])
    pod = make_pod("p", cpu="1")
    assert place(state, Fake(gives={"small": 10}, weight=0), pod=pod) == "large"
    decision, attempt = decide(state, Fake(gives={"small": 10}, weight=3), pod=pod)
    assert isinstance(decision, Bind)
    assert decision.node_name == "small"
    assert attempt is not None
    assert attempt.scores is not None
    part = attempt.scores.parts[-1]
    assert part.plugin == "http://fake"
    assert sorted(part.weighted.tolist()) == [0, 300]
    assert int(attempt.scores.totals.max()) == decision.total_score


def test_an_extender_that_gives_no_points_is_not_missed() -> None:
    state = nodes("n1", "n2")
    winner = Fake(gives={"n2": 1, "elsewhere": 10})
    assert place(state, Fake(gives=BROKEN), winner) == "n2"


def test_points_overflow_as_in_go() -> None:
    assert place(nodes("n1", "n2"), Fake(gives={"n1": 2**62}, weight=1)) == "n2"


def test_ties_are_broken_by_chance_where_an_extender_is_interested() -> None:
    state = nodes("n1", "n2", "n3")
    alone = {place(state, seed=seed) for seed in range(20)}
    assert len(alone) == 1
    anyone = Fake(passes=["n1", "n2", "n3"])
    assert {place(state, anyone, seed=seed) for seed in range(40)} == {"n1", "n2", "n3"}
    some = Fake(gives={"n2": 0, "n3": 0})
    assert {place(state, some, seed=seed) for seed in range(40)} == {"n2", "n3"}
    nobody = Fake(gives=BROKEN)
    assert {place(state, nobody, seed=seed) for seed in range(20)} == alone


# Preempt.


def full(*names: str) -> ClusterState:
    return make_state(
        [make_node(name, cpu="1") for name in names],
        [make_pod(f"on-{name}", cpu="1", node_name=name) for name in names],
    )


PREEMPTOR = make_pod("p", cpu="1", priority=100)


def victim(state: ClusterState, name: str) -> MetaVictims:
    [pod] = state.pods.on(state.nodes.row_of[name])
    return MetaVictims((pod.uid,))


def test_extenders_choose_among_the_candidates_for_preemption() -> None:
    state = full("n1", "n2", "n3")
    first = Fake(victims={"n2": victim(state, "n2"), "n3": victim(state, "n3")})
    second = Fake(victims={"n3": victim(state, "n3")})
    proposal = refusal(state, first, second, pod=PREEMPTOR)
    assert proposal.nominated_node == "n3"
    assert [pod.name for pod in proposal.victims] == ["on-n3"]
    assert sorted(first.asked[0]) == ["n1", "n2", "n3"]
    assert sorted(second.asked[0]) == ["n2", "n3"]


@pytest.mark.parametrize(
    ("victims", "text"),
    [
        ({}, "no candidate node for preemption"),
        ({"n1": MetaVictims()}, 'expected at least one victim pod on node "n1"'),
        ({"n9": MetaVictims(("u",))}, 'nodeinfo not found for node name "n9"'),
        (
            {"n1": MetaVictims(("u",))},
            "extender: http://fake claims to preempt pod (UID: &{u}) on node: n1, but the pod "
            "is not found on that node",
        ),
        (BROKEN, "it broke"),
    ],
)
def test_without_agreement_nobody_is_preempted(
    victims: Mapping[str, MetaVictims] | ExtenderError, text: str
) -> None:
    failure = refusal(full("n1"), Fake(victims=victims), pod=PREEMPTOR)
    assert not failure.victims
    assert failure.nominated_node is None
    assert failure.message.endswith(f"preemption: {text}")


def test_what_fails_and_may_be_ignored_changes_nothing() -> None:
    for victims in (BROKEN, {"n9": MetaVictims(("u",))}):
        one = Fake(victims=victims, ignorable=True)
        assert refusal(full("n1"), one, pod=PREEMPTOR).nominated_node == "n1"
    state = full("n1", "n2")
    partly = Fake(victims={"n1": MetaVictims(), "n2": victim(state, "n2")}, ignorable=True)
    assert refusal(state, partly, pod=PREEMPTOR).nominated_node == "n2"


# Bind.


def test_the_first_extender_that_binds_the_pod_does_it() -> None:
    def run(*extenders: Extender) -> object:
        return asyncio.run(bind_by_extender(extenders, make_pod("p"), "n1"))

    other = Fake(bound=True)
    assert run() is SKIP
    assert run(Fake(passes=[]), Fake(bound=True, managed=frozenset({"a/b"}))) is SKIP
    assert run(Fake(bound=True), other) is None
    assert other.asked == []
    failed = run(Fake(bound=BROKEN), other)
    assert getattr(failed, "reasons", None) == ("it broke",)
    assert run(Fake(bound=BROKEN, ignorable=True)) is SKIP
    assert run(Fake(bound=BROKEN, ignorable=True), other) is None
    assert other.asked == [["n1"]]
