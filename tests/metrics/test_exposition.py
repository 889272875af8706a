"""Families, what the options do to them, and the two texts they are written as."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families as parse_text

from metrics.measuring import values_in
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.metrics.exporter import AllMetrics
from moorage.metrics.exposition import TEXT, render
from moorage.metrics.families import Counter, Gauge, Histogram, exponential
from moorage.metrics.options import MetricsOptions
from moorage.printable import go_float


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1"),
        (-3, "-3"),
        (0.001, "0.001"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.5, "1.5"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (1048576, "1.048576e+06"),
        (123456.75, "123456.75"),
        (1.79479483822e09, "1.79479483822e+09"),
        (2.0**64, "1.8446744073709552e+19"),
        (3.9835999999999996e-05, "3.9835999999999996e-05"),
        (-0.0, "-0"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert go_float(value) == text


@given(st.floats(allow_nan=False))
def test_a_written_number_is_read_back_unchanged(value: float) -> None:
    assert float(go_float(value)) == value


def test_a_histogram_counts_a_bound_into_the_bucket_below_it() -> None:
    sizes = Histogram("sizes", "Sizes.", ("kind",), buckets=[1.0, 2.0])
    for value in (0.5, 1.0, 1.5, 99.0):
        sizes.labels("x").observe(value)
    assert render([sizes])[1].decode() == (
        "# HELP sizes [ALPHA] Sizes.\n"
        "# TYPE sizes histogram\n"
        'sizes_bucket{kind="x",le="1"} 2\n'
        'sizes_bucket{kind="x",le="2"} 3\n'
        'sizes_bucket{kind="x",le="+Inf"} 4\n'
        'sizes_sum{kind="x"} 102\n'
        'sizes_count{kind="x"} 4\n'
    )


def test_labels_and_label_sets_are_in_order_and_escaped() -> None:
    family = Counter("c_total", 'A "help"\nof \\ two lines.', ("z", "a"), "STABLE")
    family.labels("1", 'x"y').add()
    family.labels("2", "b\\c").add(2)
    family.labels("1", "b\nd").add(3)
    assert render([family])[1].decode().splitlines() == [
        '# HELP c_total [STABLE] A "help"\\nof \\\\ two lines.',
        "# TYPE c_total counter",
        'c_total{a="b\\nd",z="1"} 3',
        'c_total{a="b\\\\c",z="2"} 2',
        'c_total{a="x\\"y",z="1"} 1',
    ]


def test_a_family_with_labels_appears_with_its_first_label_set() -> None:
    family = Gauge("g", "A gauge.", ("a",))
    assert render([family])[1] == b""
    family.labels("x")
    assert b'g{a="x"} 0\n' in render([family])[1]


def test_a_wrong_number_of_labels_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="has labels"):
        Counter("c_total", "", ("a", "b")).labels("x")


def test_exponential_buckets_grow_by_multiplying_step_by_step() -> None:
    assert exponential(0.00001, 1.5, 3) == [0.00001, 0.00001 * 1.5, 0.00001 * 1.5 * 1.5]


def test_the_text_is_read_by_prometheus_own_parser() -> None:
    metrics = AllMetrics(DEFAULT_FEATURE_GATES)
    metrics.scheduler.attempt_failed("error", 'a "quoted"\\ profile', 0.25)
    metrics.client.finished("h:1", "GET", 0.01, 0, 300)
    metrics.serving.authenticated("success", "someone", 0.1)
    content_type, text = metrics.render()
    assert content_type == TEXT
    plain = {family.name: family for family in parse_text(text.decode())}
    attempts = plain["scheduler_schedule_attempts"]
    assert attempts.type == "counter"
    [sample] = [one for one in attempts.samples if one.name.endswith("_total")]
    assert sample.labels == {"result": "error", "profile": 'a "quoted"\\ profile'}
    assert plain["authentication_attempts"].type == "counter"


def test_a_disabled_metric_is_not_shown_but_counted() -> None:
    options = MetricsOptions(disabled_metrics=("scheduler_pending_pods",))
    text = AllMetrics(DEFAULT_FEATURE_GATES, options).render()[1]
    assert values_in(text, "scheduler_pending_pods") == {}
    assert values_in(text, "disabled_metrics_total") == {"": 1}


def test_label_values_beside_the_allow_list_become_unexpected() -> None:
    options = MetricsOptions(
        allow_metric_labels={"scheduler_queue_incoming_pods_total,event": "NodeAdd,PodAdd"}
    )
    metrics = AllMetrics(DEFAULT_FEATURE_GATES, options)
    for event in ("NodeAdd", "NodeDelete", "AssignedPodAdd"):
        metrics.scheduler.incoming_pods("active", event, 1)
    text = metrics.render()[1]
    assert values_in(text, "scheduler_queue_incoming_pods_total") == {
        'event="NodeAdd",queue="active"': 1,
        'event="unexpected",queue="active"': 2,
    }
    name = "cardinality_enforcement_unexpected_categorizations_total"
    assert values_in(text, name) == {"": 2}


def test_the_allow_list_may_stand_in_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = tmp_path / "allowed.yaml"
    manifest.write_text('"scheduler_unschedulable_pods,plugin": "NodeName"\n')
    options = MetricsOptions(allow_metric_labels_manifest=str(manifest))
    metrics = AllMetrics(DEFAULT_FEATURE_GATES, options)
    metrics.scheduler.unschedulable_reason("NodePorts", "p", 1)
    text = metrics.render()[1]
    assert values_in(text, "scheduler_unschedulable_pods") == {'plugin="unexpected",profile="p"': 1}
    assert not caplog.records
    gone = MetricsOptions(allow_metric_labels_manifest=str(tmp_path / "gone.yaml"))
    AllMetrics(DEFAULT_FEATURE_GATES, gone)
    assert "failed to read allow list manifest" in caplog.text


def test_registered_metrics_are_counted_by_stability() -> None:
    metrics = AllMetrics(DEFAULT_FEATURE_GATES)
    counted = values_in(metrics.render()[1], "registered_metrics_total")
    stable = [f for f in metrics.registry.families.values() if f.stability == "STABLE"]
    assert counted['deprecated_version="",stability_level="STABLE"'] == len(stable) > 5
