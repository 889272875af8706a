"""Two schedulers measured in turn: what their medians say about each other, and a small plot."""

from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from xml.sax.saxutils import escape

import msgspec

from moorage.benchmarks.api_bench import ApiMeasurement
from moorage.benchmarks.scheduler_command import SchedulerCommand

FIGURES = {
    "pods_per_second": "pods/s, first to last binding",
    "pods_per_second_from_start": "pods/s, from the scheduler's start",
    "seconds_to_first_binding": "s until the first binding",
    "cpu_ms_per_pod": "ms CPU per pod",
    "peak_rss_mib": "MiB peak memory",
    "latency_ms_p50": "ms until bound, p50",
    "latency_ms_p90": "ms until bound, p90",
    "latency_ms_p99": "ms until bound, p99",
    "raw_bindings_per_second": "bare bindings/s of the API server",
    "share_of_raw": "share of the bare binding rate",
}
"""What runs are compared by, and what it is called."""

Measure = Callable[[SchedulerCommand], Awaitable[ApiMeasurement]]


class SchedulerComparison(msgspec.Struct, frozen=True):
    """The medians of one or two schedulers, and the first one's divided by the second one's."""

    medians: dict[str, dict[str, float]]
    ratios: dict[str, float] = {}


async def run_rounds(
    commands: Sequence[SchedulerCommand], rounds: int, measure: Measure
) -> list[ApiMeasurement]:
    """Measure every scheduler once per round, in the other order every second round."""
    runs: list[ApiMeasurement] = []
    for number in range(rounds):
        turn = commands if number % 2 == 0 else list(reversed(commands))
        for command in turn:
            runs.append(await measure(command))  # noqa: PERF401 - one after the other
    return runs


def compare(
    commands: Sequence[SchedulerCommand], runs: Sequence[ApiMeasurement]
) -> SchedulerComparison:
    """Put the runs together."""
    medians = {
        command.name: {
            field: round(median(getattr(run, field) for run in of), 3) for field in FIGURES
        }
        for command in commands
        if (of := [run for run in runs if run.scheduler == command.name])
    }
    if len(commands) < 2:
        return SchedulerComparison(medians)
    one, other = (medians[command.name] for command in commands)
    ratios = {field: round(one[field] / other[field], 3) for field in FIGURES if other[field]}
    return SchedulerComparison(medians, ratios)


_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 50
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")
_MOST_POINTS = 400
_TICKS = 5


def bound_pods_svg(title: str, runs: Sequence[ApiMeasurement]) -> str:
    """The drawing."""
    seconds = max(run.bound_at[-1] for run in runs)
    pods = max(run.pods for run in runs)
    names = list(dict.fromkeys(run.scheduler for run in runs))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
        *_axes(seconds, pods),
    ]
    for run in runs:
        colour = _COLOURS[names.index(run.scheduler) % len(_COLOURS)]
        parts.append(_line(run, seconds, pods, colour))
    for place, name in enumerate(names):
        colour = _COLOURS[place % len(_COLOURS)]
        y = _TOP + 14 + 18 * place
        parts.append(f'<rect x="{_LEFT + 12}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{_LEFT + 28}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _place(second: float, count: float, seconds: float, pods: int) -> tuple[float, float]:
    x = _LEFT + second / seconds * (_WIDTH - _LEFT - _RIGHT)
    y = _HEIGHT - _BOTTOM - count / pods * (_HEIGHT - _TOP - _BOTTOM)
    return round(x, 1), round(y, 1)


def _axes(seconds: float, pods: int) -> list[str]:
    left, bottom = _place(0, 0, seconds, pods)
    right, top = _place(seconds, pods, seconds, pods)
    parts = [
        f'<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="black"/>',
        f'<text x="{right}" y="{_HEIGHT - 10}" text-anchor="end">'
        "seconds since the scheduler was started</text>",
        f'<text x="{left}" y="{top - 6}">bound pods</text>',
    ]
    for tick in range(_TICKS + 1):
        second, count = seconds * tick / _TICKS, pods * tick / _TICKS
        x, y = _place(second, count, seconds, pods)
        parts.append(f'<path d="M{left} {y}H{right}" stroke="#dddddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{count:,.0f}</text>')
        parts.append(f'<text x="{x}" y="{bottom + 18}" text-anchor="middle">{second:.3g}</text>')
    return parts


def _line(run: ApiMeasurement, seconds: float, pods: int, colour: str) -> str:
    step = max(1, len(run.bound_at) // _MOST_POINTS)
    chosen = [(run.bound_at[at], at + 1) for at in range(0, len(run.bound_at), step)]
    chosen.append((run.bound_at[-1], len(run.bound_at)))
    points = " ".join("{},{}".format(*_place(s, c, seconds, pods)) for s, c in chosen)
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
