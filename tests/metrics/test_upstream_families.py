"""Our metric families beside those of the real kube-scheduler v1.37.1."""

from typing import Any

import pytest

from metrics.upstream import known
from moorage.config.feature_gates import FeatureGates
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.families import AnyFamily, Histogram
from moorage.metrics.options import MetricsOptions
from moorage.metrics.registry import MetricsRegistry
from moorage.printable import go_float

UPSTREAM = known()

LEFT_OUT = {
    "aggregator_": "about an aggregated API, which a scheduler links in but does not serve",
    "apiserver_audit_": "about audit logs, which a scheduler does not write",
    "apiserver_envelope_encryption_": "about encryption of stored objects",
    "apiserver_storage_": "about stored objects",
    "apiserver_validation_": "about the validation of API objects",
    "apiserver_webhooks_": "about webhooks that are called",
    "authentication_token_cache_active_fetch_count": "reviews are awaited one by one per token",
    "informer_processing_latency_seconds": "scheduler_event_handling_duration_seconds tells it",
    "informer_queued_items": "events are handled as they are read",
    "rest_client_transport_": "about client-go's cache of connections' settings; there is none",
    "workqueue_": "about client-go's work queues; nothing here is kept in one",
}
"""Beginnings of names that we do not have, and why. Go's own (`go_*`) are not even on file."""


@pytest.fixture(scope="module")
def ours() -> dict[str, AnyFamily]:
    """Everything we can show, with the gates on that bring more."""
    behind = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "SchedulerAsyncAPICalls")
    hidden = MetricsOptions(show_hidden_metrics_for_version="1.36")
    metrics = AllMetrics(FeatureGates(dict.fromkeys(behind, True)), hidden)
    resources = MetricsRegistry("resources.yaml")
    return metrics.slis.families | resources.families | metrics.registry.families


def _describe(family: AnyFamily) -> dict[str, Any]:
    buckets = None
    if isinstance(family, Histogram):
        buckets = [*map(go_float, family.buckets), "+Inf"]
    return {
        "type": family.kind,
        "labels": sorted(family.label_names),
        "buckets": buckets,
        "help": family.help_text,
    }


@pytest.mark.parametrize(
    "name", [name for name in UPSTREAM if not name.startswith(tuple(LEFT_OUT))]
)
def test_a_family_of_kube_scheduler_is_ours_with_equal_type_labels_buckets_and_help(
    name: str, ours: dict[str, AnyFamily]
) -> None:
    theirs = {key: value for key, value in UPSTREAM[name].items() if key != "observed"}
    assert _describe(ours[name]) == theirs


def test_every_reason_for_leaving_something_out_is_needed() -> None:
    for beginning in LEFT_OUT:
        assert any(name.startswith(beginning) for name in UPSTREAM), beginning


def test_no_metric_of_the_scheduler_itself_is_left_out() -> None:
    assert not any(beginning.startswith(("sched", "kube")) for beginning in LEFT_OUT)
    assert sum(name.startswith("scheduler_") for name in UPSTREAM) == 50


def test_what_upstream_does_not_have_bears_a_name_of_our_own(ours: dict[str, AnyFamily]) -> None:
    extra = {name for name in ours if name not in UPSTREAM}
    assert {name for name in extra if not name.startswith(("moorage_", "python_"))} == set()


def test_families_behind_gates_are_there_only_with_the_gate() -> None:
    default = AllMetrics(FeatureGates()).registry.families
    for name in (
        "podgroup_schedule_attempts_total",
        "preemption_pdb_violations_total",
        "generated_placements_total",
        "pending_async_api_calls",
    ):
        assert f"scheduler_{name}" not in default
    assert "scheduler_preemption_goroutines_execution_total" in default
    without = FeatureGates({"SchedulerAsyncPreemption": False})
    off = AllMetrics(without).registry.families
    assert "scheduler_preemption_goroutines_execution_total" not in off


def test_a_deprecated_family_is_shown_to_those_who_ask_for_hidden_ones() -> None:
    name = "scheduler_preemption_goroutines_duration_seconds"
    usual = AllMetrics(FeatureGates())
    assert name not in usual.registry.families
    assert usual.registry.number("hidden_metrics_total").value == 1
    options = MetricsOptions(show_hidden_metrics_for_version="1.36")
    asked = AllMetrics(FeatureGates(), options)
    assert name in asked.registry.families
    assert asked.registry.number("hidden_metrics_total").value == 0
    assert asked.registry.number("registered_metrics_total", "ALPHA", "1.37.0").value == 1
