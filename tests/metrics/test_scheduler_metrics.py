"""When the scheduler's metrics change, and with which labels."""

import time
from random import Random
from typing import Any

import msgspec
import pytest

from metrics.measuring import PROFILE, Measured, nonzero, values_in
from moorage.benchmarks.engine_bench import measure
from moorage.cli.main import main
from moorage.config import default_config
from moorage.config.feature_gates import FeatureGates
from moorage.engine.actions import Binding, Eviction, Failure
from moorage.engine.clock import VirtualClock
from moorage.framework.plugin import FilterPlugin, PermitPlugin, ReservePlugin
from moorage.framework.status import Code, Status, Verdicts
from moorage.kube.live import build_scheduler
from moorage.metrics.exporter import AllMetrics
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry
from moorage.simulator.world import World
from moorage.testing import make_node, make_pod
from plugins.pod_groups.gangs import make_group

ATTEMPTS = "scheduler_schedule_attempts_total"
ATTEMPT_COUNT = "scheduler_scheduling_attempt_duration_seconds_count"
POINTS = "scheduler_framework_extension_point_duration_seconds_count"
EVALUATIONS = "scheduler_plugin_evaluation_total"
PENDING = "scheduler_pending_pods"
INCOMING = "scheduler_queue_incoming_pods_total"


def point(name: str, status: str = "Success") -> str:
    return f'extension_point="{name}",{PROFILE},status="{status}"'


def evaluations(measured: Measured, at: str) -> dict[str, float]:
    prefix = f'extension_point="{at}",plugin="'
    found = nonzero(measured.values(EVALUATIONS))
    return {
        key.removeprefix(prefix).partition('"')[0]: value
        for key, value in found.items()
        if key.startswith(prefix)
    }


class Doorman(PermitPlugin):
    """Refuses whom the label says."""

    name = "Doorman"

    def permit(self, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        match pod.labels.get("permit"):
            case "wait":
                return Status(Code.WAIT, ("hold on",)), 60.0
            case "no":
                return Status(Code.UNSCHEDULABLE, ("not today",)), 0.0
        return None, 0.0


class Clumsy(FilterPlugin[None], ReservePlugin):
    """Breaks for some."""

    name = "Clumsy"

    def filter(self, pod: Pod, nodes: Any, state: None) -> Verdicts:
        if pod.labels.get("filter") == "break":
            raise RuntimeError("oops")
        return Verdicts(len(nodes))

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        if pod.labels.get("reserve") == "no":
            return Status(Code.UNSCHEDULABLE, ("no room in the book",))
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        return None


@pytest.fixture
def measured() -> Measured:
    made = Measured([Doorman, Clumsy])
    for index in range(3):
        made.scheduler.handlers.add_node(make_node(f"n{index}", cpu="4"))
    return made


def test_an_attempt_counts_as_scheduled_only_when_the_pod_is_bound(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    [binding] = measured.run()
    assert isinstance(binding, Binding)
    assert measured.values(ATTEMPTS) == {}
    measured.clock.advance(2.5)
    measured.scheduler.bound(binding)
    scheduled = f'{PROFILE},result="scheduled"'
    assert measured.values(ATTEMPTS) == {scheduled: 1}
    assert measured.values(ATTEMPT_COUNT) == {scheduled: 1}
    assert measured.values("scheduler_pod_scheduling_attempts_sum") == {"": 1}
    sli = "scheduler_pod_scheduling_sli_duration_seconds"
    assert measured.values(f"{sli}_sum") == {'attempts="1"': 2.5}


def test_the_time_until_a_pod_is_bound_begins_when_its_gate_opens(measured: Measured) -> None:
    gated = make_pod("web", cpu="1", spec={"schedulingGates": [{"name": "quota"}]})
    measured.scheduler.handlers.add_pod(gated)
    assert measured.run() == []
    assert measured.values(PENDING)['queue="gated"'] == 1
    assert measured.values("scheduler_unschedulable_pods") == {
        f'plugin="SchedulingGates",{PROFILE}': 1
    }
    measured.clock.advance(100)
    metadata = msgspec.structs.replace(gated.metadata, resource_version="2")
    spec = msgspec.structs.replace(gated.spec, scheduling_gates=())
    opened = msgspec.structs.replace(gated, metadata=metadata, spec=spec)
    measured.scheduler.handlers.update_pod(gated, opened)
    assert measured.values(PENDING)['queue="gated"'] == 0
    [binding] = measured.run()
    assert isinstance(binding, Binding)
    measured.clock.advance(3)
    measured.scheduler.bound(binding)
    sli = "scheduler_pod_scheduling_sli_duration_seconds_sum"
    assert measured.values(sli) == {'attempts="1"': 3}
    assert nonzero(measured.values("scheduler_unschedulable_pods")) == {}


@pytest.mark.parametrize(("attempts", "shown"), [(1, "1"), (14, "14"), (15, "15+"), (400, "15+")])
def test_attempts_are_told_apart_up_to_fourteen(attempts: int, shown: str) -> None:
    measured = Measured()
    measured.metrics.scheduler.pod_scheduled("default-scheduler", 0.1, attempts, 1.0)
    sli = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert measured.values(sli) == {f'attempts="{shown}"': 1}


def test_a_rejected_pod_is_unschedulable_and_a_broken_attempt_an_error(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("big", cpu="100"))
    measured.scheduler.handlers.add_pod(make_pod("odd", cpu="1", labels={"filter": "break"}))
    measured.run()
    results = {f'{PROFILE},result="unschedulable"': 1, f'{PROFILE},result="error"': 1}
    assert measured.values(ATTEMPTS) == results
    assert measured.values(ATTEMPT_COUNT) == results
    assert measured.values("scheduler_scheduling_algorithm_duration_seconds_count") == {"": 2}
    assert measured.values("scheduler_unschedulable_pods") == {
        f'plugin="NodeResourcesFit",{PROFILE}': 1
    }
    points = measured.values(POINTS)
    assert (points[point("Filter")], points[point("Filter", "Error")]) == (1, 1)


def test_every_extension_point_is_measured_once_in_an_attempt(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    measured.run()
    passed = ("PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit")
    assert measured.values(POINTS) == {point(name): 1 for name in passed}


def test_an_attempt_that_finds_no_node_is_not_scored(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("big", cpu="100"))
    measured.run()
    assert measured.values(POINTS) == {
        point("PreEnqueue"): 1,
        point("PreFilter"): 1,
        point("Filter"): 1,
        point("PostFilter", "Unschedulable"): 1,
    }


def test_refusals_of_reserve_and_permit_are_seen_in_the_status(measured: Measured) -> None:
    for name, labels in (
        ("a", {"reserve": "no"}),
        ("b", {"permit": "no"}),
        ("c", {"permit": "wait"}),
    ):
        measured.scheduler.handlers.add_pod(make_pod(name, cpu="1", labels=labels))
    measured.run()
    points = measured.values(POINTS)
    assert points[point("Reserve", "Unschedulable")] == 1
    assert points[point("Reserve")] == 2
    assert points[point("Permit", "Unschedulable")] == 1
    assert points[point("Permit", "Wait")] == 1
    assert points[point("Unreserve")] == 2


def test_a_gated_pod_counts_as_a_success_of_pre_enqueue_as_upstream(measured: Measured) -> None:
    gated = make_pod("web", spec={"schedulingGates": [{"name": "quota"}]})
    measured.scheduler.handlers.add_pod(gated)
    assert measured.values(POINTS) == {point("PreEnqueue"): 1}


def test_plugins_are_shown_before_they_are_asked(measured: Measured) -> None:
    shown = measured.values(EVALUATIONS)
    assert set(shown.values()) == {0}
    assert f'extension_point="Filter",plugin="NodeName",{PROFILE}' in shown
    assert f'extension_point="Score",plugin="ImageLocality",{PROFILE}' in shown


def test_evaluations_count_nodes_in_filter_and_score_and_pods_elsewhere(measured: Measured) -> None:
    measured.scheduler.handlers.add_node(make_node("tainted", cpu="4", taints=["a=b:NoSchedule"]))
    measured.scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    measured.run()
    # NodeAffinity, the spread and the others had nothing to say and skipped the pod.
    always = ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit")
    assert evaluations(measured, "PreFilter") == dict.fromkeys(always, 1)
    filters = evaluations(measured, "Filter")
    assert filters["NodeUnschedulable"] == filters["TaintToleration"] == 4
    assert filters["NodeResourcesFit"] == 3, "upstream asks nobody after the first refusal"
    assert evaluations(measured, "PreScore")["TaintToleration"] == 1
    assert evaluations(measured, "Score")["ImageLocality"] == 3


def test_kept_answers_count_like_fresh_ones(measured: Measured) -> None:
    for name in ("a", "b"):
        measured.scheduler.handlers.add_pod(make_pod(name, cpu="1"))
    measured.run()
    assert evaluations(measured, "Filter")["NodeUnschedulable"] == 6


def test_plugins_are_measured_one_by_one_only_in_attempts_that_chance_picks() -> None:
    durations = "scheduler_plugin_execution_duration_seconds_count"
    for closely in (False, True):
        measured = Measured([Doorman], closely=closely)
        measured.scheduler.handlers.add_node(make_node("n", cpu="4"))
        measured.scheduler.handlers.add_node(make_node("m", cpu="4"))
        measured.scheduler.handlers.add_pod(make_pod("web", cpu="1"))
        measured.run()
        found = measured.values(durations)
        assert bool(found) is closely
    assert found['extension_point="Score",plugin="ImageLocality",status="Success"'] == 1
    assert found['extension_point="Permit",plugin="Doorman",status="Success"'] == 1
    assert found['extension_point="PreEnqueue",plugin="SchedulingGates",status="Success"'] == 1


def test_a_tenth_of_the_attempts_is_sampled() -> None:
    metrics = AllMetrics(FeatureGates(), random=Random(4)).scheduler
    picked = sum(metrics.attempt_begins("x").sampled for _ in range(5000))
    assert 400 < picked < 600


def test_without_an_observer_no_clock_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden() -> float:
        raise AssertionError("somebody reads a clock")

    clock = VirtualClock(5.0)
    gates = FeatureGates()
    scheduler = build_scheduler(default_config(), in_tree_registry(), gates, clock)
    for name in ("time", "perf_counter", "monotonic"):
        monkeypatch.setattr(time, name, forbidden)
    scheduler.handlers.add_node(make_node("n", cpu="2"))
    scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    scheduler.handlers.add_pod(make_pod("big", cpu="3"))
    assert scheduler.schedule_one()
    assert scheduler.schedule_one()
    kinds = [type(action) for action in scheduler.outbox]
    monkeypatch.undo()  # pytest itself looks at the clock
    assert kinds == [Binding, Failure]


def test_preemption_counts_every_try_and_the_victims_of_those_that_help(measured: Measured) -> None:
    handlers = measured.scheduler.handlers
    for index in range(3):
        for half in ("a", "b"):
            pod = make_pod(f"low-{index}-{half}", cpu="2", node_name=f"n{index}", priority=1)
            handlers.add_pod(pod)
    handlers.add_pod(make_pod("vip", cpu="4", priority=100))
    handlers.add_pod(make_pod("big", cpu="64", priority=100))
    actions = measured.run()
    [eviction] = [action for action in actions if isinstance(action, Eviction)]
    assert len(eviction.victims) == 2
    assert measured.values("scheduler_preemption_attempts_total") == {"": 2}
    assert measured.values("scheduler_preemption_victims_count") == {"": 1}
    assert measured.values("scheduler_preemption_victims_sum") == {"": 2}
    points = measured.values(POINTS)
    assert points[point("PostFilter")] == points[point("PostFilter", "Unschedulable")] == 1


def test_the_queue_shows_where_pods_wait_and_what_brought_them_there(measured: Measured) -> None:
    scheduler = measured.scheduler
    scheduler.handlers.add_pod(make_pod("big", cpu="6"))
    assert measured.values(PENDING) == {
        'queue="active"': 1,
        'queue="backoff"': 0,
        'queue="gated"': 0,
        'queue="unschedulable"': 0,
        'queue="incomplete"': 0,
        'queue="pending"': 0,
    }
    measured.run()
    assert nonzero(measured.values(PENDING)) == {'queue="unschedulable"': 1}
    scheduler.handlers.add_node(make_node("large", cpu="8"))
    assert nonzero(measured.values(PENDING)) == {'queue="backoff"': 1}
    assert measured.values(INCOMING) == {
        'event="UnscheduledPodAdd",queue="active"': 1,
        'event="ScheduleAttemptFailure",queue="unschedulable"': 1,
        'event="NodeAdd",queue="backoff"': 1,
    }
    moved = measured.values("scheduler_queue_incoming_entities_total")
    assert moved == {'event="UnscheduledPodAdd",queue="active",type="pod"': 1}
    entities = nonzero(measured.values("scheduler_queued_entities"))
    assert entities == {'queue="backoff",type="pod"': 1}
    hints = measured.values("scheduler_queueing_hint_execution_duration_seconds_count")
    assert hints == {'event="NodeAdd",hint="Queue",plugin="NodeResourcesFit"': 1}


def test_events_in_flight_are_a_gauge(measured: Measured) -> None:
    scheduler = measured.scheduler
    scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    assert scheduler.schedule_one()
    scheduler.handlers.add_node(make_node("late"))
    in_flight = "scheduler_inflight_events"
    assert measured.values(in_flight) == {'event="PodPopped"': 1, 'event="NodeAdd"': 1}
    [binding] = scheduler.outbox
    assert isinstance(binding, Binding)
    scheduler.permitted(binding)
    assert measured.values(in_flight) == {'event="PodPopped"': 0, 'event="NodeAdd"': 0}


def test_handled_events_go_by_the_labels_of_cluster_events(measured: Measured) -> None:
    handlers = measured.scheduler.handlers
    node = make_node("n0", cpu="4")
    handlers.update_node(node, make_node("n0", cpu="5", labels={"a": "b"}))
    pending = make_pod("p", metadata={"resourceVersion": "1"})
    handlers.add_pod(pending)
    handlers.update_pod(pending, make_pod("p", node_name="n0", metadata={"resourceVersion": "2"}))
    bound = make_pod("p", node_name="n0", metadata={"resourceVersion": "3"})
    handlers.update_pod(bound, bound)
    handlers.delete_pod(bound)
    handlers.delete_node(node)
    events = measured.values("scheduler_event_handling_duration_seconds_count")
    assert {key.split('"')[1]: count for key, count in events.items()} == {
        "NodeAdd": 3,
        "NodeUpdateNodeAllocatable": 1,
        "NodeUpdateNodeLabel": 1,
        "UnscheduledPodAdd": 1,
        "UnscheduledPodDelete": 1,
        "AssignedPodAdd": 1,
        "AssignedPodUpdate": 2,  # upstream measures a plain update twice
        "AssignedPodDelete": 1,
        "NodeDelete": 1,
    }


def test_the_cache_is_counted_when_somebody_looks(measured: Measured) -> None:
    handlers = measured.scheduler.handlers
    handlers.add_pod(make_pod("old", node_name="n0"))
    handlers.add_pod(make_pod("ghost", node_name="gone"))
    handlers.add_pod(make_pod("new", cpu="1"))
    measured.run()
    assert measured.values("scheduler_cache_size") == {
        'type="assumed_pods"': 1,
        'type="nodes"': 4,
        'type="pods"': 3,
    }


def test_a_failed_binding_is_an_error_that_undoes_the_reservation(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("web", cpu="1"))
    [binding] = measured.run()
    assert isinstance(binding, Binding)
    measured.scheduler.permitted(binding)
    measured.scheduler.binding_failed(binding, Status(Code.ERROR, ("conflict",)))
    assert measured.values(ATTEMPTS) == {f'{PROFILE},result="error"': 1}
    assert measured.values(POINTS)[point("Unreserve")] == 1


def test_a_reset_forgets_counts_but_not_how_things_stand(measured: Measured) -> None:
    measured.scheduler.handlers.add_pod(make_pod("big", cpu="100"))
    measured.run()
    measured.metrics.reset()
    assert measured.values(ATTEMPTS) == {}
    assert measured.values("scheduler_preemption_attempts_total") == {"": 0}
    assert measured.values(PENDING)['queue="unschedulable"'] == 1
    measured.scheduler.handlers.add_pod(make_pod("huge", cpu="100"))
    measured.run()
    assert measured.values(ATTEMPTS) == {f'{PROFILE},result="unschedulable"': 1}


def test_a_pod_group_is_measured_as_a_whole_and_pod_by_pod() -> None:
    measured = Measured(gates=FeatureGates({"GenericWorkload": True}))
    handlers = measured.scheduler.handlers
    for name in ("n", "m"):
        handlers.add_node(make_node(name, cpu="4"))
    handlers.add_object(make_group("team"))
    group = {"schedulingGroup": {"podGroupName": "team"}}
    for name in ("a", "b"):
        handlers.add_pod(make_pod(name, cpu="1", spec=group))
    measured.run()
    attempts = "scheduler_podgroup_schedule_attempts_total"
    assert measured.values(attempts) == {f'{PROFILE},result="scheduled"': 1}
    name = "scheduler_podgroup_scheduling_attempt_duration_seconds_count"
    assert measured.values(name) == {f'{PROFILE},result="scheduled"': 1}
    whole = "scheduler_podgroup_scheduling_algorithm_duration_seconds_count"
    assert measured.values(whole) == {"": 1}
    assert measured.values("scheduler_scheduling_algorithm_duration_seconds_count") == {"": 2}


def test_the_benchmark_can_be_run_with_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = AllMetrics(FeatureGates())
    result = measure(
        World(default_config()), nodes=20, pods=300, workload="basic", observer=metrics.scheduler
    )
    assert result.placed == 300
    text = metrics.render()[1]
    assert values_in(text, ATTEMPTS) == {f'{PROFILE},result="scheduled"': 300}
    assert values_in(text, POINTS)[point("Score")] == 300, "none is lost between two gatherings"
    assert main(["bench", "engine", "--nodes", "5", "--pods", "5", "--metrics"]) == 0
    assert "5 of 5 pods placed" in capsys.readouterr().out


def test_evictions_are_counted_by_whom_the_room_is_for() -> None:
    measured = Measured(gates=FeatureGates({"GenericWorkload": True}))
    observer = measured.metrics.scheduler
    observer.victims_selected("pod", 2, 0, 0)
    observer.victims_selected("podgroup", 5, 2, 1)
    observer.preemption_finished("pod", "success", 0.5)
    observer.preemption_finished("podgroup", "error", 2.0)
    assert measured.values("scheduler_preemption_victims_sum") == {"": 2}
    assert measured.values("scheduler_workload_preemption_victims_sum") == {"": 5}
    violations = measured.values("scheduler_preemption_pdb_violations_total")
    assert violations == {'preemptor="podgroup"': 2}
    disruptions = measured.values("scheduler_preemption_workload_disruptions_sum")
    assert disruptions == {'preemptor="podgroup"': 1}
    assert measured.values("scheduler_preemption_execution_duration_seconds_sum") == {
        'preemptor="pod",result="success"': 0.5,
        'preemptor="podgroup",result="error"': 2.0,
    }
    assert measured.values("scheduler_preemption_goroutines_execution_total") == {
        'result="success"': 1,
        'result="error"': 1,
    }


def test_searches_for_victims_are_measured_with_what_came_of_them() -> None:
    measured = Measured(gates=FeatureGates({"GenericWorkload": True}))
    handlers = measured.scheduler.handlers
    handlers.add_node(make_node("n", cpu="4"))
    handlers.add_pod(make_pod("low", cpu="4", node_name="n", priority=1))
    handlers.add_pod(make_pod("vip", cpu="4", priority=100))
    handlers.add_pod(make_pod("big", cpu="64", priority=100))
    handlers.add_object(make_group("team"))
    group = {"schedulingGroup": {"podGroupName": "team"}}
    handlers.add_pod(make_pod("member", cpu="64", spec=group))
    measured.run()
    name = "scheduler_preemption_evaluation_duration_seconds_count"
    assert measured.values(name) == {
        'preemptor="pod",result="Success"': 1,
        'preemptor="pod",result="Unschedulable"': 1,
        'preemptor="podgroup",result="UnschedulableAndUnresolvable"': 1,
    }
