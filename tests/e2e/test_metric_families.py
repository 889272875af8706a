"""The metrics after the same load, beside kube-scheduler's."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.client import wait_for
from e2e.cluster import ControlPlane
from e2e.instance import Instance, instance, let_read
from e2e.objects import pod_group, priority_class
from e2e.schedulers import PEER, Scheduler, subject
from e2e.trial import Trial, trial
from metrics.test_upstream_families import LEFT_OUT
from metrics.upstream import described

_GATES = "GenericWorkload=true"
_PAGES = ("/metrics", "/metrics/resources", "/metrics/slis")
# The same whenever the load is; of durations only how many were measured. What is done to batch
# pods (Sign) is left out.
_COUNTED = (
    *("schedule_attempts_total", "scheduling_attempt_duration_seconds_count"),
    *("pending_pods", "queue_incoming_pods_total", "unschedulable_pods", "cache_size"),
    *("preemption_attempts_total", "preemption_victims_sum", "preemption_victims_count"),
    "preemption_goroutines_execution_total",
    *("pod_scheduling_attempts_sum", "pod_scheduling_attempts_count"),
    *("pod_scheduling_sli_duration_seconds_count", "scheduling_algorithm_duration_seconds_count"),
    *("framework_extension_point_duration_seconds_count", "permit_wait_duration_seconds_count"),
    "podgroup_schedule_attempts_total",
)
# Besides LEFT_OUT, which are not ours at all: what may have no samples here. The names, labels and
# buckets of all of them are compared by tests/metrics.
_WITHOUT_SAMPLES = {
    "scheduler_batch_": "Moorage does not batch pods, and needs no hints for that",
    "scheduler_get_node_hint_": "the same",
    "scheduler_store_schedule_results_": "the same",
    "scheduler_plugin_execution_": "measured in one cycle of ten, by chance",
    "leader_election_slowpath_total": "only after a lost race",
    "rest_client_request_retries_total": "only after an answer that asks for patience",
}
_QUIET_SECONDS = 2.5

Samples = dict[str, float]


def _leaving(stage: Trial, node: str) -> str | None:
    """The pod of a node that is being deleted; the nomination may be seen before that."""
    pods = stage.api.list("Pod", stage.namespace, fieldSelector=f"spec.nodeName={node}")
    going = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
    return going[0]["metadata"]["name"] if going else None


def _load(stage: Trial) -> None:
    """Pods that are placed, that fit nowhere, that are gated, that preempt, and a gang."""
    stage.add(priority_class("high", 1000))
    for name in ("n1", "n2"):
        stage.add_node(name, cpu="4")
    for index in range(6):
        stage.place(f"plain-{index}", cpu="1")
    stage.add_pod("nowhere", nodeSelector={"no": "where"})
    stage.refused("nowhere")
    stage.add_pod("gated", schedulingGates=[{"name": "example.com/gate"}])
    stage.add_pod("preemptor", cpu="2", priorityClassName="high")
    node = stage.nominated("preemptor")
    victim = wait_for("the victim", lambda: _leaving(stage, node))
    stage.refused("preemptor")
    stage.delete_pod(victim)
    stage.bound("preemptor")
    stage.add(pod_group("gang", 2))
    for index in range(2):
        group = {"podGroupName": "gang"}
        stage.add_pod(f"member-{index}", memory="1Gi", schedulingGroup=group)
    for index in range(2):
        stage.bound(f"member-{index}")
    stage.change_node("n1", {"metadata": {"labels": {"some": "label"}}})


def _numbers(one: Instance) -> Samples:
    """The deterministic samples of the scheduler's own families."""
    wanted = {f"scheduler_{name}" for name in _COUNTED}
    found = {}
    for family in text_string_to_metric_families(one.read("/metrics")):
        for sample in family.samples:
            if sample.name in wanted and sample.labels.get("extension_point") != "Sign":
                labels = ",".join(f"{key}={sample.labels[key]}" for key in sorted(sample.labels))
                found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def _settled(one: Instance) -> Samples:
    """The numbers once they have not changed for a while."""
    seen, since = _numbers(one), time.monotonic()

    def quiet() -> bool:
        nonlocal seen, since
        if (now := _numbers(one)) != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > _QUIET_SECONDS

    wait_for("numbers that stay", quiet, pause=0.25)
    return seen


Found = tuple[dict[str, dict[str, Any]], Samples]


@pytest.fixture(scope="module")
def measured(server: ControlPlane, scheduler: Callable[[str], Scheduler]) -> dict[str, Found]:
    """Families by name and deterministic numbers, by scheduler."""
    let_read(server)
    found = {}
    for name in dict.fromkeys((PEER, subject())):
        with trial(server, scheduler(name), f"families-{name}") as stage:
            flags = ("--leader-elect=true", f"--feature-gates={_GATES}")
            with instance(scheduler(name), server, "families", *flags) as running:
                running.wait("leadership", running.leads)
                _load(stage)
                numbers = _settled(running)
                families = {
                    key: family
                    for page in _PAGES
                    for key, family in described(running.read(page)).items()
                }
                found[name] = families, numbers
                running.process.stop()  # and give the lease back
    return found


def test_every_family_of_kube_scheduler_is_there_with_its_type_labels_buckets_and_help(
    measured: dict[str, Found],
) -> None:
    theirs, ours = measured[PEER][0], measured[subject()][0]
    spared = ("go_", *LEFT_OUT, *_WITHOUT_SAMPLES)
    missing = [name for name in set(theirs) - set(ours) if not name.startswith(spared)]
    assert sorted(missing) == []
    both = set(theirs) & set(ours)
    assert sum(name.startswith("scheduler_") for name in both) > 20
    differ = {name: (theirs[name], ours[name]) for name in both if ours[name] != theirs[name]}
    assert differ == {}


def test_what_kube_scheduler_does_not_have_bears_a_name_of_our_own(
    measured: dict[str, Found],
) -> None:
    theirs, ours = measured[PEER][0], measured[subject()][0]
    own = ("moorage_", "python_", *_WITHOUT_SAMPLES)
    assert sorted(name for name in set(ours) - set(theirs) if not name.startswith(own)) == []


def test_the_numbers_are_the_same(measured: dict[str, Found]) -> None:
    theirs, ours = measured[PEER][1], measured[subject()][1]
    assert ours == theirs
    scheduled = "scheduler_schedule_attempts_total{profile=default-scheduler,result=scheduled}"
    assert theirs[scheduled] == 9.0
