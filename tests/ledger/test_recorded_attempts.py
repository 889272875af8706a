"""What a scheduler's attempts look like in the ledger, however they end."""

import pytest

from engine.test_scheduler import CONFIG, Bookkeeper, Doorman, config, run
from moorage.config import DEFAULT_FEATURE_GATES, load_config
from moorage.engine.actions import Binding
from moorage.engine.clock import VirtualClock
from moorage.engine.decisions import Bind, Refusal, refused_decision
from moorage.engine.recording import NO_RECORD, EndedAttempt
from moorage.engine.scheduler import Scheduler
from moorage.explain.pods import explain_pod
from moorage.explain.report import DecisionSummary
from moorage.framework.status import Code, Status
from moorage.kube.live import build_scheduler
from moorage.ledger import Ledger
from moorage.model.affinity import Affinity
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import GANGS, World, make_group, member
from reference import objects
from reference.objects import node_affinity, node_term

NOW = 1_000_000.0


class Ticking(VirtualClock):
    """A millisecond passes whenever somebody looks."""

    def now(self) -> float:
        self.advance(0.001)
        return super().now()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def scheduler(ledger: Ledger) -> Scheduler:
    registry = in_tree_registry()
    registry.register(Doorman)
    registry.register(Bookkeeper)
    made = build_scheduler(config(), registry, DEFAULT_FEATURE_GATES, Ticking())
    made.record(ledger.recorder)
    for name in ("n1", "n2"):
        made.handlers.add_node(make_node(name, cpu="4"))
    return made


def latest(ledger: Ledger) -> DecisionSummary:
    [summary] = ledger.summaries(limit=1)
    return summary


def test_a_placed_pod_is_recorded_with_its_node_and_scores(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    [binding] = run(scheduler)
    told = ledger.explain(1, matrix=(0, 10))
    summary = told.decision
    assert (summary.pod, summary.result, summary.node) == ("default/web", "scheduled", "n1")
    assert (summary.attempts, summary.nodes, summary.feasible) == (1, 2, 2)
    assert (summary.profile, summary.uid) == ("default-scheduler", binding.pod.uid)
    assert 0.001 <= summary.seconds < 0.1
    assert [(one.node, one.chosen, one.total) for one in told.scores] == [
        ("n1", True, summary.score),
        ("n2", False, summary.score),
    ]
    assert told.rejections == ()
    assert told.matrix is not None
    assert [row.node for row in told.matrix.rows] == ["n1", "n2"]


def test_a_pod_that_fits_nowhere_is_recorded_with_every_reason(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    scheduler.handlers.add_node(make_node("n3", cpu="1", unschedulable=True))
    scheduler.handlers.add_pod(make_pod("big", cpu="9"))
    [failure] = run(scheduler)
    told = ledger.explain(1)
    assert told.decision.result == "unschedulable"
    assert told.decision.message == failure.message
    found = {
        (one.plugin, one.reason): (one.nodes, one.examples, one.only) for one in told.rejections
    }
    assert found == {
        ("NodeResourcesFit", "Insufficient cpu"): (3, ("n1", "n2", "n3"), 2),
        ("NodeUnschedulable", "node(s) were unschedulable"): (1, ("n3",), 0),
    }


def test_rejections_are_told_as_an_explanation_tells_them(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    scheduler.handlers.add_node(make_node("busy", cpu="16"))
    scheduler.handlers.add_pod(make_pod("there", cpu="10", node_name="busy"))
    scheduler.handlers.add_node(make_node("reef", cpu="16", taints=["rocks:NoSchedule"]))
    big = make_pod("big", cpu="9")
    scheduler.handlers.add_pod(big)
    run(scheduler)
    told = ledger.explain(1).rejections
    assert [(one.reason, one.code, one.nodes, one.unresolvable) for one in told] == [
        ("Insufficient cpu", "UnschedulableAndUnresolvable", 3, 2),
        ("node(s) had untolerated taint(s)", "UnschedulableAndUnresolvable", 1, 1),
    ]
    [profile] = scheduler.profiles.values()
    assert told == explain_pod(scheduler.cycle, profile, big, source="live").rejections


def test_a_refusal_before_any_node_says_that_evicting_pods_would_not_help(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    scheduler.handlers.add_pod(make_pod("web", spec={"volumes": [claim]}))
    run(scheduler)
    for one in ledger.explain(1).rejections:
        assert (one.code, one.nodes, one.unresolvable) == ("UnschedulableAndUnresolvable", 2, 2)


def test_nominated_pods_are_blamed_only_where_nothing_else_is_in_the_way(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    scheduler.handlers.add_node(make_node("large", cpu="8"))
    for node, cpu in (("n1", "3"), ("large", "6")):
        first = make_pod(f"first-{node}", cpu=cpu, priority=10)
        scheduler.state.listers.of(Pod).put(first)
        ledger.recorder.changed(first)
        scheduler.cycle.nominated.add(first, node)
    pod = make_pod("second", cpu="5")
    scheduler.handlers.add_pod(pod)
    run(scheduler)
    told = ledger.explain(1, matrix=(0, 3))
    assert {(one.with_nominated_pods, one.examples) for one in told.rejections} == {
        (True, ("large",)),
        (False, ("n1", "n2")),
    }
    [profile] = scheduler.profiles.values()
    assert told.rejections == explain_pod(scheduler.cycle, profile, pod, source="live").rejections


@pytest.mark.parametrize(
    ("label", "plugin", "point", "reason"),
    [
        ("reserve", "Bookkeeper", "Reserve", "no room in the book"),
        ("permit", "Doorman", "Permit", "not today"),
    ],
)
def test_a_chosen_node_that_is_refused_makes_one_failed_attempt(
    scheduler: Scheduler, ledger: Ledger, label: str, plugin: str, point: str, reason: str
) -> None:
    scheduler.handlers.add_pod(make_pod("web", labels={label: "no"}))
    [failure] = run(scheduler)
    assert len(ledger) == 1
    told = ledger.explain(1)
    assert (told.decision.result, told.decision.node) == ("unschedulable", "")
    assert told.decision.message == failure.message
    [rejection] = told.rejections
    assert (rejection.plugin, rejection.point, rejection.reason) == (plugin, point, reason)
    assert (rejection.nodes, rejection.examples) == (1, ("n1",))
    assert [one.node for one in told.scores] == ["n1", "n2"], "it was scored before"


def test_a_failed_bind_is_an_attempt_of_its_own(scheduler: Scheduler, ledger: Ledger) -> None:
    scheduler.handlers.add_pod(make_pod("web"))
    [binding] = run(scheduler)
    assert isinstance(binding, Binding)
    scheduler.binding_failed(binding, Status(Code.ERROR, ("timed out",)))
    assert [one.result for one in ledger.summaries()] == ["error", "scheduled"]
    told = ledger.explain(2)
    assert told.decision.message == "timed out"
    assert [(one.point, one.examples) for one in told.rejections] == [("Bind", ("n1",))]
    assert told.matrix is None


class Caretaker(Bookkeeper, Doorman):
    """Is at Reserve and at Permit, and fails there if the pod's label says so."""

    name = "Caretaker"

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        if pod.labels.get("reserve") == "raise":
            raise RuntimeError("the book is wet")
        return super().reserve(pod, node_name)

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if pod.labels.get("permit") == "raise":
            raise RuntimeError("the door is stuck")
        return super().permit(pod, node_name)


@pytest.mark.parametrize(
    ("point", "answer", "words"),
    [
        ("Reserve", "no", "no room in the book"),
        ("Reserve", "raise", "the book is wet"),
        ("Permit", "no", "not today"),
        ("Permit", "raise", "the door is stuck"),
    ],
)
def test_a_plugin_at_reserve_and_permit_is_told_at_the_point_where_it_refused(
    ledger: Ledger, point: str, answer: str, words: str
) -> None:
    registry = in_tree_registry()
    registry.register(Caretaker)
    settings = load_config(
        CONFIG.replace("{name: Doorman}, {name: Bookkeeper}", "{name: Caretaker}"), "test"
    )
    scheduler = build_scheduler(settings, registry, DEFAULT_FEATURE_GATES, VirtualClock(NOW))
    scheduler.record(ledger.recorder)
    scheduler.handlers.add_node(make_node("n1"))
    scheduler.handlers.add_pod(make_pod("web", labels={point.lower(): answer}))
    run(scheduler)
    [rejection] = ledger.explain(1).rejections
    assert rejection.point == point
    assert words in rejection.reason


@pytest.mark.parametrize("point", ["Permit", "PreBind", "Bind"])
def test_a_binding_that_fails_is_told_at_its_point_and_of_its_node(
    scheduler: Scheduler, ledger: Ledger, point: str
) -> None:
    scheduler.handlers.add_pod(make_pod("web"))
    [binding] = run(scheduler)
    assert isinstance(binding, Binding)
    # VolumeBinding is a Reserve plugin as well.
    status = Status(Code.ERROR, ("timed out",), "VolumeBinding")
    scheduler.binding_failed(binding, status, point)
    [rejection] = ledger.explain(2).rejections
    assert (rejection.plugin, rejection.point) == ("VolumeBinding", point)
    assert (rejection.nodes, rejection.examples) == (1, ("n1",))


@pytest.mark.parametrize("point", ["Reserve", "Permit", "PreBind", "Bind"])
def test_a_refusal_of_the_chosen_node_is_told_with_the_columns_of_the_attempt(
    scheduler: Scheduler, ledger: Ledger, point: str
) -> None:
    pod, profile = make_pod("web"), scheduler.profiles["default-scheduler"]
    decision, _ = scheduler.cycle.attempt(profile, pod)
    assert isinstance(decision, Bind)
    status = Status(Code.ERROR, ("timed out",), "VolumeBinding")
    failure = refused_decision(pod, Refusal(status, point))
    ledger.recorder.attempt_ended(EndedAttempt(pod, profile, 1, decision, failure))
    told = ledger.explain(1, matrix=(0, 10))
    assert [(one.point, one.nodes, one.examples) for one in told.rejections] == [
        (point, 1, (decision.node_name,))
    ]
    assert told.matrix is not None
    assert [row.feasible for row in told.matrix.rows] == [True, True], "no Filter refused it"


def test_an_attempt_without_nodes_is_recorded_with_its_message(ledger: Ledger) -> None:
    world = World()
    world.scheduler.record(ledger.recorder)
    world.add(make_pod("web"))
    world.run()
    told = ledger.explain(1, matrix=(0, 10))
    assert told.decision.message == "no nodes available to schedule pods"
    assert (told.rejections, told.matrix) == ((), None)


def test_a_pod_that_prefilter_narrows_names_the_nodes_left_out(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    only = node_affinity(required=[node_term(names=("In", ["n2"]))])
    pod = objects.make_pod("web", cpu="9", affinity=Affinity(node_affinity=only))
    scheduler.handlers.add_pod(pod)
    run(scheduler)
    told = ledger.explain(1, matrix=(0, 10))
    points = {(one.plugin, one.point, one.nodes, one.examples) for one in told.rejections}
    assert points == {
        ("NodeAffinity", "PreFilter", 1, ("n1",)),
        ("NodeAffinity", "Filter", 1, ("n1",)),
        ("NodeResourcesFit", "Filter", 2, ("n1", "n2")),
    }


def test_every_pod_of_a_gang_is_recorded_with_what_becomes_of_it() -> None:
    ledger = Ledger()
    world = World(GANGS)
    world.scheduler.record(ledger.recorder)
    world.add(make_node("n1", cpu="2"))
    world.add(make_group(min_count=3))
    for name in ("a", "b", "c"):
        world.add(member(name, cpu="1"))
    world.run()
    told = {one.pod: (one.result, one.feasible) for one in ledger.summaries()}
    assert set(told) == {"default/a", "default/b", "default/c"}
    assert {result for result, _ in told.values()} == {"unschedulable"}
    assert sorted(feasible for _, feasible in told.values()) == [0, 1, 1]


def test_listeners_hear_of_every_attempt_until_they_leave(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    heard: list[DecisionSummary] = []
    leave = ledger.subscribe(heard.append)
    for name in ("a", "b"):
        scheduler.handlers.add_pod(make_pod(name))
    scheduler.handlers.add_pod(make_pod("big", cpu="99"))
    run(scheduler)
    leave()
    scheduler.handlers.add_pod(make_pod("c"))
    run(scheduler)
    assert [one.number for one in heard] == [1, 2, 3]
    assert heard == list(reversed(ledger.summaries(before=4)))


def test_a_listener_that_fails_harms_nobody(scheduler: Scheduler, ledger: Ledger) -> None:
    def broken(summary: DecisionSummary) -> None:
        raise RuntimeError(summary.pod)

    ledger.subscribe(broken)
    scheduler.handlers.add_pod(make_pod("a"))
    [binding] = run(scheduler)
    assert isinstance(binding, Binding)
    assert len(ledger) == 1


def test_without_a_ledger_nothing_is_recorded(scheduler: Scheduler, ledger: Ledger) -> None:
    scheduler.record(NO_RECORD)
    scheduler.handlers.add_pod(make_pod("a"))
    run(scheduler)
    assert len(ledger) == 0


def test_more_reasons_than_a_byte_has_bits_are_told_apart(
    scheduler: Scheduler, ledger: Ledger
) -> None:
    for count in (2, 12, 1):
        names = [f"example.com/r{n}" for n in range(count)]
        requests = dict.fromkeys(names, "1")
        scheduler.handlers.add_pod(objects.make_pod(f"pod-{count}", requests=requests))
        run(scheduler)
        told = ledger.explain(len(ledger))
        assert {one.reason for one in told.rejections} == {f"Insufficient {name}" for name in names}
        assert {one.nodes for one in told.rejections} == {2}
