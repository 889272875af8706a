"""What metrics or the ledger cost the engine: runs without and with them, in turns.

Owns the turns and their statistics. All runs make the same decisions, so the least time that each
decision took in any run tells how long an undisturbed run would take: noise only slows. Every run
is a process of its own: in one process the runs would share what the interpreter has learned about
call sites, and neither would be as fast as it is alone.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from moorage.benchmarks.engine_bench import Measurement
from moorage.benchmarks.progress import Progress
from moorage.errors import InputError

Run = Callable[[Sequence[str]], Measurement]


class Side(msgspec.Struct, frozen=True):
    """One side of a comparison, over all rounds."""

    pods_per_second: float
    """The median."""
    best_pods_per_second: float
    """Of the run that was disturbed least."""
    undisturbed_pods_per_second: float
    """If every decision took as long as in the run in which it took least."""


class EngineCost(msgspec.Struct, frozen=True):
    """Both sides, and how much lower the second one's throughput is."""

    workload: str
    nodes: int
    pods: int
    switches: list[str]
    rounds: int
    without: Side
    with_switches: Side = msgspec.field(name="with")
    cost_percent: float
    """Between the medians."""
    best_cost_percent: float
    """Between the best runs."""
    undisturbed_cost_percent: float
    """Between undisturbed runs: on a noisy machine the best estimate."""


def measure_cost(
    arguments: Sequence[str],
    switches: Sequence[str],
    rounds: int,
    progress: Progress,
    run: Run | None = None,
) -> EngineCost:
    """Run `moorage bench engine ARGUMENTS` without and with switches, so many times each."""
    run = run or run_alone
    plain: list[Measurement] = []
    switched: list[Measurement] = []
    with progress.phase("rounds", rounds) as phase:
        for number in range(rounds):
            # In the other order every second round, so that a drift favours neither.
            for on in (False, True) if number % 2 == 0 else (True, False):
                found = run([*arguments, *(switches if on else ())])
                (switched if on else plain).append(found)
            phase.advance()
    without, with_switches = _side(plain), _side(switched)
    return EngineCost(
        workload=plain[0].workload,
        nodes=plain[0].nodes,
        pods=plain[0].pods,
        switches=list(switches),
        rounds=rounds,
        without=without,
        with_switches=with_switches,
        cost_percent=_lower(without.pods_per_second, with_switches.pods_per_second),
        best_cost_percent=_lower(without.best_pods_per_second, with_switches.best_pods_per_second),
        undisturbed_cost_percent=_lower(
            without.undisturbed_pods_per_second, with_switches.undisturbed_pods_per_second
        ),
    )


def run_alone(arguments: Sequence[str]) -> Measurement:
    """One run in a new process."""
    command = [sys.executable, "-m", "moorage", "bench", "engine", *arguments, "--json", "--times"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"a run of bench engine failed: {done.stderr.strip()}")
    return msgspec.json.decode(done.stdout, type=Measurement)


def _side(runs: Sequence[Measurement]) -> Side:
    rates = [run.pods_per_second for run in runs]
    least = sum(map(min, zip(*(run.ns_by_pod for run in runs), strict=True)))
    return Side(
        pods_per_second=round(median(rates), 1),
        best_pods_per_second=max(rates),
        undisturbed_pods_per_second=round(runs[0].pods * 1e9 / max(least, 1), 1),
    )


def _lower(without: float, with_switches: float) -> float:
    return round(100 * (1 - with_switches / without), 1)
