"""Memory of processes over time: sampled, written as CSV, drawn as SVG, and judged."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

MOST_GROWTH = 1.5
_WIDTH, _HEIGHT, _MARGIN = 900, 420, 50
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


class Sample(NamedTuple):
    """What was seen at one moment: MiB by process (0 where there was none)."""

    second: float
    pods: int
    mib: dict[str, float]


def resident_mib(pid: int) -> float:
    """The memory that a process occupies; 0 once it is gone."""
    try:
        pages = int(Path("/proc", str(pid), "statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * 4096 / 2**20


def write_csv(path: Path, samples: Sequence[Sample], names: Sequence[str]) -> None:
    """One line per sample."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["second", "pods", *(f"{name} MiB" for name in names)])
        for sample in samples:
            shown = (f"{sample.mib[name]:.1f}" for name in names)
            writer.writerow([f"{sample.second:.0f}", sample.pods, *shown])


class Growth(NamedTuple):
    """A process's memory before the first pod, in the first tenth and in the last quarter of a run.

    The first is the least, as it is of a process that has just started; the others are medians.
    """

    idle: float
    start: float
    end: float

    @property
    def flat(self) -> bool:
        """Is there a plateau?"""
        return self.end <= MOST_GROWTH * self.start


def growth(samples: Sequence[Sample], name: str) -> Growth:
    """How a process's memory developed."""
    last = samples[-1].second
    idle = [s.mib[name] for s in samples if s.second < 0 and s.mib[name]]
    begin = [s.mib[name] for s in samples if last * 0.02 <= s.second <= last * 0.1 and s.mib[name]]
    final = [s.mib[name] for s in samples if s.second >= last * 0.75 and s.mib[name]]
    return Growth(min(idle, default=0.0), median(begin or [0.0]), median(final or [0.0]))


def write_svg(path: Path, samples: Sequence[Sample], names: Sequence[str]) -> None:
    """A line per process."""
    longest = max(samples[-1].second, 1.0)
    highest = max(max(s.mib[name] for s in samples for name in names), 1.0) * 1.1

    def point(second: float, mib: float) -> str:
        x = _MARGIN + max(second, 0.0) / longest * (_WIDTH - 2 * _MARGIN)
        y = _HEIGHT - _MARGIN - mib / highest * (_HEIGHT - 2 * _MARGIN)
        return f"{x:.1f},{y:.1f}"

    def text(x: float, y: float, words: str, colour: str = "#333") -> str:
        return f'<text x="{x}" y="{y}" fill="{colour}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        text(_MARGIN, 20, "resident memory in MiB over seconds"),
    ]
    for step in range(5):
        level = highest * step / 4
        start, end = point(0, level), point(longest, level)
        parts.append(f'<polyline points="{start} {end}" stroke="#ddd" fill="none"/>')
        parts.append(text(4, float(start.split(",")[1]) + 4, f"{level:.0f}"))
        moment = longest * step / 4
        x = float(point(moment, 0).split(",")[0])
        parts.append(text(x - 12, _HEIGHT - _MARGIN + 20, f"{moment:.0f}"))
    for index, name in enumerate(names):
        colour = _COLOURS[index % len(_COLOURS)]
        line = " ".join(point(s.second, s.mib[name]) for s in samples)
        parts.append(f'<polyline points="{line}" stroke="{colour}" fill="none" stroke-width="2"/>')
        parts.append(text(_MARGIN + 150 * index, _HEIGHT - 8, name, colour))
    path.write_text("\n".join([*parts, "</svg>\n"]))
