"""`moorage bench engine`: how fast the engine decides, and what slows it."""

import argparse

import msgspec

from moorage.benchmarks.engine_bench import EngineCost, Measurement, measure, measure_cost
from moorage.benchmarks.progress import Progress, Quiet
from moorage.benchmarks.workloads import write_manifests
from moorage.cli.configuration import make_world, read_configuration
from moorage.cli.output import print_json, print_line, print_table
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.engine.recording import NO_RECORD
from moorage.errors import InputError
from moorage.ledger import Ledger
from moorage.metrics.exporter import AllMetrics


def run(args: argparse.Namespace) -> int:
    """Measure and print, or write what would be measured."""
    if args.write is not None:
        write_manifests(args.write, args.workload, args.nodes, args.pods)
        return 0
    if args.cost is not None:
        return _run_cost(args)
    result = measure(
        make_world(
            read_configuration(args.config),
            args.config,
            reuse=not args.no_reuse,
            plugins=args.plugins,
        ),
        nodes=args.nodes,
        pods=args.pods,
        workload=args.workload,
        observer=AllMetrics(DEFAULT_FEATURE_GATES).scheduler if args.metrics else None,
        recorder=Ledger().recorder if args.ledger else NO_RECORD,
        times=args.times,
    )
    if args.json:
        print_json(msgspec.to_builtins(result))
    else:
        _print(result)
    return 0


def _run_cost(args: argparse.Namespace) -> int:
    switches = [f"--{name}" for name in ("metrics", "ledger") if getattr(args, name)]
    if not switches:
        raise InputError("--cost: of what? Say --metrics, --ledger or both")
    arguments = ["--nodes", str(args.nodes), "--pods", str(args.pods), "--workload", args.workload]
    if args.no_reuse:
        arguments.append("--no-reuse")
    if args.config is not None:
        read_configuration(args.config)  # so that what is wrong with it is told here, once
        arguments += ["--config", str(args.config)]
    for plugin in args.plugins:
        arguments += ["--plugin", plugin]
    cost = measure_cost(arguments, switches, args.cost, Quiet() if args.json else Progress())
    if args.json:
        print_json(msgspec.to_builtins(cost))
    else:
        _print_cost(cost)
    return 0


def _print_cost(cost: EngineCost) -> None:
    print_line(f"{cost.workload}: {cost.pods} pods on {cost.nodes} nodes, {cost.rounds} runs each")
    rows = [
        (name, *(f"{rate:,.0f}" for rate in msgspec.structs.astuple(side)))
        for name, side in (("without", cost.without), (" ".join(cost.switches), cost.with_switches))
    ]
    lower = (cost.cost_percent, cost.best_cost_percent, cost.undisturbed_cost_percent)
    rows.append(("cost", *(f"{percent:.1f} %" for percent in lower)))
    print_table(("PODS/S", "MEDIAN", "BEST RUN", "UNDISTURBED"), rows, right=" rrr")
    print_line(
        "  undisturbed: as if every decision took as long as in the run in which it took least"
    )


def _print(result: Measurement) -> None:
    print_line(
        f"{result.workload}: {result.placed} of {result.pods} pods placed on {result.nodes} nodes"
    )
    bare_p50, bare_mean = result.bare_pass_us_p50, result.bare_pass_us_mean
    first, last = result.cpu_us_per_pod_first, result.cpu_us_per_pod_last
    lines = (
        (f"{result.pods_per_second:,.1f}", "pods/s"),
        (f"{result.us_per_pod_p50:,.1f}", "µs per pod (p50)"),
        (f"{result.us_per_pod_mean:,.1f}", "µs per pod (mean)"),
        (f"{result.us_per_pod_p99:,.1f}", "µs per pod (p99)"),
        (f"{result.to_bare_pass_p50:,.2f}", f"bare NumPy passes of {bare_p50:,.1f} µs (p50)"),
        (f"{result.to_bare_pass_mean:,.2f}", f"bare NumPy passes of {bare_mean:,.1f} µs (mean)"),
        (
            f"{result.last_to_first:,.2f}",
            f"last third of the pods ({last:,.1f} µs CPU) to the first sixth ({first:,.1f} µs CPU)",
        ),
        (f"{result.loading_seconds:,.3f}", "seconds until the cluster was loaded"),
        (f"{result.cpu_seconds:,.3f}", "CPU seconds"),
        (f"{result.peak_rss_mib:,.1f}", "MiB peak memory"),
    )
    for figure, what in lines:
        print_line(f"  {figure:>10}  {what}")
