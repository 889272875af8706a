"""How fast the engine decides, pods placed one by one in process; what metrics and ledger cost.

Everything is built and decoded before the clock starts; what is measured is deciding and taking the
place found, nothing else. What follows in a cluster (victims go, claims are written down) is done
while the clock stands still. Costs come from runs without and with something, in turns: all runs
make the same decisions, so the least time that each took in any run tells how long an undisturbed
run would take. Each is a process of its own: in one process they would share what the interpreter
has learned about call sites.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from moorage.benchmarks.bare_pass import BarePass
from moorage.benchmarks.progress import Progress
from moorage.benchmarks.workloads import WORKLOADS, made_before, make_pod
from moorage.cluster.view import NodeView
from moorage.connections.memory import collecting_rarely
from moorage.controlplane.processes import peak_mib
from moorage.engine.decisions import Bind, Decision, Unschedulable
from moorage.engine.observer import UNSCHEDULABLE, SchedulerObserver
from moorage.engine.recording import NO_RECORD, DecisionRecorder, EndedAttempt
from moorage.errors import InputError
from moorage.framework.profile import Profile
from moorage.framework.reserving import reserve
from moorage.model.pod import Pod
from moorage.simulator.world import World

_BARE_PASSES = 500


class Measurement(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was run, and what it took."""

    nodes: int
    pods: int
    workload: str
    placed: int
    loading_seconds: float
    """What it took to decode nodes and whatever is there before, and to take them in."""
    pods_per_second: float
    us_per_pod_p50: float
    us_per_pod_p99: float
    us_per_pod_mean: float
    cpu_us_per_pod_first: float
    """Processor time, the mean of the first sixth of the pods: others' load does not show in it."""
    cpu_us_per_pod_last: float
    """The same of the last third."""
    last_to_first: float
    bare_pass_us_p50: float
    """One pass over the same nodes with NumPy alone, in the same run: see `bare_pass`."""
    bare_pass_us_mean: float
    to_bare_pass_p50: float
    """How many such passes a decision takes."""
    to_bare_pass_mean: float
    cpu_seconds: float
    peak_rss_mib: float
    ns_by_pod: tuple[int, ...] = ()
    """What each decision took, in their order, if somebody wants to know."""


def measure(
    world: World,
    *,
    nodes: int,
    pods: int,
    workload: str,
    observer: SchedulerObserver | None = None,
    recorder: DecisionRecorder = NO_RECORD,
    times: bool = False,
) -> Measurement:
    """Fill an empty world, place pods in it and measure each decision.

    `observer` and `recorder` are told what a scheduler tells of its attempts, so that the cost of
    that shows. Garbage is collected as often as in a live scheduler.
    """
    watch = observer or SchedulerObserver()
    kind = WORKLOADS[workload]
    loading_began = time.perf_counter_ns()
    world.add_all(made_before(kind, nodes, pods))
    loading = time.perf_counter_ns() - loading_began
    recorder.follow(world.cycle, world.profiles)
    waiting = [make_pod(index, kind) for index in range(pods)]
    profile = world.profiles.get(waiting[0].spec.scheduler_name)
    if profile is None:
        raise InputError(
            f"the configuration has no profile for {waiting[0].spec.scheduler_name}, "
            "the scheduler of the benchmark's pods"
        )
    took: list[int] = []
    bare: list[int] = []
    placed = 0
    cpu: list[int] = []
    every = -(-pods // _BARE_PASSES)
    with collecting_rarely():
        for number, pod in enumerate(waiting):
            if number % every == 0:
                bare.append(_bare_pass(world, pod))
            cpu_before, before = time.process_time_ns(), time.perf_counter_ns()
            decision, found = _attempt(world, profile, pod, watch, recorder)
            took.append(time.perf_counter_ns() - before)
            cpu.append(time.process_time_ns() - cpu_before)
            placed += found
            _carry_out(world, profile, pod, decision)
    total, ordered, bare_ordered = sum(took), sorted(took), sorted(bare)
    first, last = cpu[: max(pods // 6, 1)], cpu[pods - max(pods // 3, 1) :]
    return Measurement(
        nodes=nodes,
        pods=pods,
        workload=workload,
        placed=placed,
        loading_seconds=round(loading / 1e9, 3),
        pods_per_second=round(pods / max(total / 1e9, 1e-9), 1),
        us_per_pod_p50=_percentile(ordered, 50),
        us_per_pod_p99=_percentile(ordered, 99),
        us_per_pod_mean=_mean(took),
        cpu_us_per_pod_first=_mean(first),
        cpu_us_per_pod_last=_mean(last),
        last_to_first=_ratio(_mean(last), _mean(first)),
        bare_pass_us_p50=_percentile(bare_ordered, 50),
        bare_pass_us_mean=_mean(bare),
        to_bare_pass_p50=_ratio(_percentile(ordered, 50), _percentile(bare_ordered, 50)),
        to_bare_pass_mean=_ratio(_mean(took), _mean(bare)),
        cpu_seconds=round(sum(cpu) / 1e9, 3),
        peak_rss_mib=peak_mib(resource.getrusage(resource.RUSAGE_SELF)),
        ns_by_pod=tuple(took) if times else (),
    )


def _attempt(
    world: World,
    profile: Profile,
    pod: Pod,
    watch: SchedulerObserver,
    recorder: DecisionRecorder,
) -> tuple[Decision, bool]:
    """Decide about a pod as a scheduler does, and whether there is or will be room for it."""
    times = watch.attempt_begins(profile.name)
    cycle = world.cycle
    started, search_start = recorder.clock(), cycle.search.start
    decision, result = cycle.decide(profile, pod, times)
    watch.algorithm_finished(times, result)
    placed = decision if isinstance(decision, Bind) else None
    failure = decision if isinstance(decision, Unschedulable) else None
    if isinstance(decision, Bind):
        world.state.assume(pod, decision.node_name)
        found = reserve(profile, pod, decision.node_name, times) is None
        watch.pod_scheduled(profile.name, times.seconds(), 1, 0.0)
    else:
        found = failure is not None and bool(failure.nominated_node)
        watch.attempt_failed(UNSCHEDULABLE, profile.name, times.seconds())
    if placed or failure:
        recorder.attempt_ended(
            EndedAttempt(pod, profile, 1, placed, failure, started, search_start, result)
        )
    return decision, found


def _carry_out(world: World, profile: Profile, pod: Pod, decision: object) -> None:
    """What the API would bring about: claims are written, or victims go and the pod takes over."""
    if isinstance(decision, Bind):
        for plugin in profile.pre_bind:
            plugin.pre_bind_offline(pod)
    elif isinstance(decision, Unschedulable) and decision.nominated_node:
        for victim in decision.victims:
            world.state.remove_pod(victim)
        world.state.assume(pod, decision.nominated_node)


def _bare_pass(world: World, pod: Pod) -> int:
    """What a bare pass over the nodes as they are takes; the second of two, as caches are warm."""
    one_pass = BarePass(NodeView(world.state), pod)
    one_pass()
    before = time.perf_counter_ns()
    one_pass()
    return time.perf_counter_ns() - before


def _mean(took: Sequence[int]) -> float:
    """In microseconds."""
    return round(sum(took) / len(took) / 1000, 1)


def _ratio(one: float, other: float) -> float:
    return round(one / max(other, 0.1), 2)


def _percentile(ordered: list[int], percent: int) -> float:
    """The nearest-rank percentile in microseconds."""
    rank = -(-len(ordered) * percent // 100)
    return round(ordered[max(rank, 1) - 1] / 1000, 1)


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
    costs = map(_lower, msgspec.structs.astuple(without), msgspec.structs.astuple(with_switches))
    what = (plain[0].workload, plain[0].nodes, plain[0].pods)
    return EngineCost(*what, list(switches), rounds, without, with_switches, *costs)


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
