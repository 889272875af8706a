"""Rounds of two schedulers, and what is made of their results."""

import asyncio
from xml.etree import ElementTree as ET

from moorage.benchmarks.api_bench import ApiMeasurement, percentile
from moorage.benchmarks.comparison import bound_pods_svg, compare, run_rounds
from moorage.benchmarks.scheduler_command import SchedulerCommand, parse_command

ONE, OTHER = SchedulerCommand("one", ("one",)), SchedulerCommand("other", ("other",))


def measurement(name: str, rate: float, cpu: float = 2.0) -> ApiMeasurement:
    return ApiMeasurement(
        scheduler=name,
        pods=4,
        pods_per_second=rate,
        pods_per_second_from_start=rate / 2,
        seconds_to_first_binding=0.5,
        cpu_seconds=cpu,
        cpu_ms_per_pod=cpu * 250,
        peak_rss_mib=100.0,
        latency_ms_p50=1.0,
        latency_ms_p90=2.0,
        latency_ms_p99=3.0,
        raw_bindings_per_second=1000.0,
        share_of_raw=rate / 1000,
        bound_at=[0.5, 1.0, 1.5, 2.0],
    )


def test_the_order_is_swapped_every_second_round() -> None:
    order: list[str] = []

    async def measure(command: SchedulerCommand) -> ApiMeasurement:
        order.append(command.name)
        return measurement(command.name, 1.0)

    runs = asyncio.run(run_rounds([ONE, OTHER], 3, measure))
    assert order == ["one", "other", "other", "one", "one", "other"]
    assert [run.scheduler for run in runs] == order


def test_ratios_are_those_of_the_medians() -> None:
    runs = [measurement("one", rate) for rate in (100, 900, 300)]
    runs += [measurement("other", rate, cpu=8.0) for rate in (100, 150, 900)]
    result = compare([ONE, OTHER], runs)
    assert result.medians["one"]["pods_per_second"] == 300
    assert result.medians["other"]["pods_per_second"] == 150
    assert result.ratios["pods_per_second"] == 2
    assert result.ratios["cpu_ms_per_pod"] == 0.25


def test_one_scheduler_alone_has_no_ratios() -> None:
    assert compare([ONE], [measurement("one", 5.0)]).ratios == {}


def test_percentiles_are_of_the_nearest_rank() -> None:
    assert percentile([0.001 * n for n in range(1, 101)], 99) == 99.0
    assert percentile([0.004], 50) == 4.0


def test_a_plot_has_a_line_per_run_and_a_colour_per_scheduler() -> None:
    runs = [measurement("one", 2.0), measurement("other", 2.0), measurement("one", 2.0)]
    root = ET.fromstring(bound_pods_svg("pods & nodes", runs))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3
    colours = [line.get("stroke") for line in lines]
    assert colours[0] == colours[2] != colours[1]


def test_a_command_is_called_after_its_program() -> None:
    assert parse_command("/opt/bin/kube-scheduler --v=2").name == "kube-scheduler"
    assert parse_command("/usr/bin/python3 -m moorage scheduler").name == "moorage"
