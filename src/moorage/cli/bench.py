"""`moorage bench`, and of its benchmarks `engine`: how fast the engine is, and what slows it."""

import argparse
from typing import Any

import msgspec

from moorage.benchmarks.engine_cost import EngineCost, measure_cost
from moorage.benchmarks.progress import Progress, Quiet
from moorage.cli import bench_api, bench_perf
from moorage.cli.arguments import positive
from moorage.cli.configuration import add_config_argument, make_world, read_configuration
from moorage.cli.output import print_json
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.engine.recording import NO_RECORD
from moorage.errors import InputError
from moorage.ledger import Ledger
from moorage.metrics.exporter import AllMetrics
from moorage.simulator.bench import Measurement, measure
from moorage.simulator.workloads import WORKLOADS

_DESCRIPTION = """\
Place pods one by one, in process and without an API server, and measure every decision. The first
three workloads have nodes of several shapes, pools and zones, some tainted, and apps with requests,
labels, spreading, affinity and selectors of their own. In the others all nodes are alike (32 CPU,
256Gi, 110 pods, ten zones), and pods ask for 100m CPU, 500Mi of memory and what the workload says.
"""

_EPILOG = """\
workloads:
  mixed             many apps of twelve replicas each, their pods shuffled
  distinct          every pod is an app of its own
  statefulset       as mixed, but each pod has a label of its own and keeps apart from the others
  basic             nothing else
  spread            zone spread, maxSkew 5, DoNotSchedule
  prefspread        zone spread, maxSkew 5, ScheduleAnyway
  affinity          required affinity to each other, by zone
  antiaffinity      required anti-affinity to each other, by node
  prefaffinity      preferred affinity to each other, by node
  preemption        20 CPU of a node that four pods of lower priority fill: three must go
  devices           a claim each, for one of eight devices per node, all with the same CEL selector
  devices-distinct  the same, each claim with a selector of its own

examples:
  moorage bench engine --nodes 5000 --pods 3000 --workload mixed
  moorage bench engine --nodes 5000 --pods 2000 --workload basic
  moorage bench engine --nodes 5000 --pods 2000 --workload spread --no-reuse --json
  moorage bench engine --nodes 5000 --pods 3000 --metrics --cost 10
  moorage bench engine --nodes 5000 --pods 100 --workload preemption
  moorage bench engine --nodes 500 --pods 500 --workload devices-distinct
"""


def add_parser(commands: Any) -> None:
    """Describe the command's arguments."""
    bench: argparse.ArgumentParser = commands.add_parser(
        "bench",
        help="measure the engine, or whole schedulers at an API server",
        description="Measurements of Moorage, and of other schedulers beside it.",
    )
    kinds = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    parser: argparse.ArgumentParser = kinds.add_parser(
        "engine",
        help="decisions per second, in process",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    number = positive()
    parser.add_argument("--nodes", type=number, required=True, metavar="N", help="nodes")
    parser.add_argument("--pods", type=number, required=True, metavar="P", help="pods to place")
    parser.add_argument("--workload", choices=list(WORKLOADS), default="basic", metavar="WORKLOAD")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument(
        "--times", action="store_true", help="with --json: what every decision took, one by one"
    )
    parser.add_argument(
        "--no-reuse", action="store_true", help="ask every plugin afresh for every pod"
    )
    parser.add_argument(
        "--metrics", action="store_true", help="count and time everything, as for /metrics"
    )
    parser.add_argument(
        "--ledger", action="store_true", help="record every decision, as --ledger-memory does"
    )
    parser.add_argument(
        "--cost",
        type=number,
        metavar="ROUNDS",
        help="with --metrics or --ledger: what these cost, from so many runs without and as many "
        "with them, in turns, each in a process of its own",
    )
    add_config_argument(parser)
    parser.set_defaults(run=_run)
    bench_api.add_parser(kinds)
    bench_perf.add_parser(kinds)


def _run(args: argparse.Namespace) -> int:
    if args.cost is not None:
        return _run_cost(args)
    result = measure(
        make_world(read_configuration(args.config), args.config, reuse=not args.no_reuse),
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
    cost = measure_cost(arguments, switches, args.cost, Quiet() if args.json else Progress())
    if args.json:
        print_json(msgspec.to_builtins(cost))
    else:
        _print_cost(cost)
    return 0


def _print_cost(cost: EngineCost) -> None:
    print(f"{cost.workload}: {cost.pods} pods on {cost.nodes} nodes, {cost.rounds} runs each")
    print(f"  {'pods/s':<22}{'median':>10}{'best run':>10}{'undisturbed':>13}")
    for name, side in (("without", cost.without), (" ".join(cost.switches), cost.with_switches)):
        rates = f"{side.pods_per_second:>10,.0f}{side.best_pods_per_second:>10,.0f}"
        print(f"  {name:<22}{rates}{side.undisturbed_pods_per_second:>13,.0f}")
    lower = f"{cost.cost_percent:>8.1f} %{cost.best_cost_percent:>8.1f} %"
    print(f"  {'cost':<22}{lower}{cost.undisturbed_cost_percent:>11.1f} %")
    print("  undisturbed: as if every decision took as long as in the run in which it took least")


def _print(result: Measurement) -> None:
    print(
        f"{result.workload}: {result.placed} of {result.pods} pods placed on {result.nodes} nodes"
    )
    print(f"  {result.pods_per_second:>10,.1f}  pods/s")
    print(f"  {result.us_per_pod_p50:>10,.1f}  µs per pod (p50)")
    print(f"  {result.us_per_pod_p99:>10,.1f}  µs per pod (p99)")
    print(f"  {result.cpu_seconds:>10,.3f}  CPU seconds")
    print(f"  {result.peak_rss_mib:>10,.1f}  MiB peak memory")
