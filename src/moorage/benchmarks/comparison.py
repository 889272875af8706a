"""Two schedulers measured in turn, and what their medians say about each other."""

from collections.abc import Awaitable, Callable, Sequence
from statistics import median

import msgspec

from moorage.benchmarks.api_bench import ApiMeasurement
from moorage.benchmarks.schedulers import Command

FIELDS = (
    "pods_per_second",
    "pods_per_second_from_start",
    "seconds_to_first_binding",
    "cpu_ms_per_pod",
    "peak_rss_mib",
    "latency_ms_p50",
    "latency_ms_p90",
    "latency_ms_p99",
    "raw_bindings_per_second",
    "share_of_raw",
)
"""What runs are compared by."""

Measure = Callable[[Command], Awaitable[ApiMeasurement]]


class Comparison(msgspec.Struct, frozen=True):
    """The medians of one or two schedulers, and the first one's divided by the second one's."""

    medians: dict[str, dict[str, float]]
    ratios: dict[str, float] = {}


async def run_rounds(
    commands: Sequence[Command], rounds: int, measure: Measure
) -> list[ApiMeasurement]:
    """Measure every scheduler once per round, in the other order every second round."""
    runs: list[ApiMeasurement] = []
    for number in range(rounds):
        turn = commands if number % 2 == 0 else list(reversed(commands))
        for command in turn:
            runs.append(await measure(command))  # noqa: PERF401 - one after the other
    return runs


def compare(commands: Sequence[Command], runs: Sequence[ApiMeasurement]) -> Comparison:
    """Put the runs together."""
    medians = {
        command.name: {
            field: round(median(getattr(run, field) for run in of), 3) for field in FIELDS
        }
        for command in commands
        if (of := [run for run in runs if run.scheduler == command.name])
    }
    if len(commands) < 2:
        return Comparison(medians)
    one, other = (medians[command.name] for command in commands)
    ratios = {field: round(one[field] / other[field], 3) for field in FIELDS if other[field]}
    return Comparison(medians, ratios)
