"""`moorage bench`: its benchmarks and their arguments.

Owns the command lines. Measuring and printing are in `bench_engine`, `bench_api` and `bench_perf`,
which bring libraries that nobody who does not measure should wait for.
"""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from moorage.cli.arguments import add_command, positive
from moorage.cli.configuration import add_config_argument

WORKLOADS = {
    "mixed": "many apps of twelve replicas each, their pods shuffled",
    "distinct": "every pod is an app of its own",
    "statefulset": "as mixed, but each pod has a label of its own and keeps apart from the others",
    "basic": "nothing else",
    "spread": "zone spread, maxSkew 5, DoNotSchedule",
    "prefspread": "zone spread, maxSkew 5, ScheduleAnyway",
    "affinity": "required affinity to each other, by zone",
    "antiaffinity": "required anti-affinity to each other, by node",
    "prefaffinity": "preferred affinity to each other, by node",
    "preemption": "20 CPU of a node that four pods of lower priority fill: three must go",
    "devices": "a claim each, for one of eight devices per node, all with the same CEL selector",
    "devices-distinct": "the same, each claim with a selector of its own",
}
"""The names of `benchmarks.workloads`, and what they are."""
_LISTED = "".join(f"  {name:<18}{text}\n" for name, text in WORKLOADS.items())
_SHAPES = """\
The first three workloads have nodes of several shapes, pools and zones, some tainted, and apps with
requests, labels, spreading, affinity and selectors of their own. In the others all nodes are alike
(32 CPU, 256Gi, 110 pods, ten zones), and pods ask for 100m CPU, 500Mi of memory and what the
workload says.
"""

_ENGINE_DESCRIPTION = """\
Place pods one by one, in process and without an API server, and measure every decision. Beside it
stands what one bare NumPy pass over the same nodes takes (fit, taints, least-allocated, balanced, a
spread mask, the best node), measured in the same run.
"""

_ENGINE_EPILOG = f"""\
workloads:
{_LISTED}
{_SHAPES}
examples:
  moorage bench engine --nodes 5000 --pods 6000 --workload mixed
  moorage bench engine --nodes 5000 --pods 2000 --workload basic
  moorage bench engine --nodes 5000 --pods 2000 --workload spread --no-reuse --json
  moorage bench engine --nodes 5000 --pods 3000 --workload mixed --metrics --cost 10
  moorage bench engine --nodes 5000 --pods 100 --workload preemption
  moorage bench engine --nodes 5000 --pods 3000 --workload mixed --write cluster/
  time moorage schedule -f cluster/
"""

_API_DESCRIPTION = """\
Fill an API server with nodes and pending pods, start a scheduler, wait until all pods are bound,
and tell how fast that went, what it cost, and how many bare bindings the same API server takes.
Everything that was created is removed again. Pods are made before the scheduler starts.
"""


_API_EPILOG = f"""\
workloads:
{_LISTED}
{_SHAPES}
A scheduler's command may hold {{kubeconfig}} and {{config}} (a KubeSchedulerConfiguration with
client limits of 5000); one that holds neither gets kube-scheduler's flags. A bare kube-scheduler is
also found beside the programs of --start. CPU time and memory are those of the process that the
command starts, from its start until the last binding.

examples:
  moorage bench api --start --nodes 5000 --pods 3000 --workload mixed --versus kube-scheduler
  moorage bench api --start --nodes 1000 --pods 1000 --workload spread \\
      --versus kube-scheduler --plot spread.svg
  moorage bench api --start --nodes 10000 --bound 200000 --pods 100
  moorage bench api --kubeconfig test-cluster.yaml --nodes 100 --pods 500 --while-running
"""

_PERF_DESCRIPTION = """\
Run the op lists of Kubernetes' scheduler_perf (test/integration/scheduler_perf) unchanged, and
print SchedulingThroughput as upstream measures it beside the threshold of upstream's CI.
Without --api, API server and scheduler share this process and no HTTP is between them.
"""


_PERF_EPILOG = """\
examples:
  moorage bench perf --config scheduler_perf/misc/performance-config.yaml --label short
  moorage bench perf --config scheduler_perf/affinity/performance-config.yaml \\
      --workload 'SchedulingPodAntiAffinity/5000Nodes*'
  moorage bench perf --config scheduler_perf/misc/performance-config.yaml \\
      --workload SchedulingBasic/500Nodes --api --scheduler kube-scheduler
"""
DEFAULT_LABEL = "performance"


def add_parser(commands: Any) -> None:
    """Describe the command's arguments."""
    text = "measure the engine, or whole schedulers at an API server"
    description = "Measurements of Moorage, and of other schedulers beside it."
    bench = add_command(commands, "bench", text, description)
    kinds = bench.add_subparsers(title="benchmarks", metavar="BENCHMARK", required=True)
    text = "decisions per second, in process"
    _add_engine(_benchmark(kinds, "engine", text, _ENGINE_DESCRIPTION, _ENGINE_EPILOG))
    text = "pods per second through an API server, compared with another scheduler"
    _add_api(_benchmark(kinds, "api", text, _API_DESCRIPTION, _API_EPILOG))
    text = "upstream's scheduler_perf workloads"
    _add_perf(_benchmark(kinds, "perf", text, _PERF_DESCRIPTION, _PERF_EPILOG))


def _benchmark(
    kinds: Any, name: str, text: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    def run(args: argparse.Namespace) -> int:
        code: int = import_module(f"moorage.cli.bench_{name}").run(args)
        return code

    parser = add_command(kinds, name, text, description, epilog)
    parser.set_defaults(run=run)
    return parser


def _add_load(parser: argparse.ArgumentParser, pods: str) -> None:
    number = positive()
    parser.add_argument("--nodes", type=number, required=True, metavar="N", help="nodes")
    parser.add_argument("--pods", type=number, required=True, metavar="P", help=pods)
    parser.add_argument("--workload", choices=list(WORKLOADS), default="basic", metavar="WORKLOAD")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    _add_load(parser, "pods to place")
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
        type=positive(),
        metavar="ROUNDS",
        help="with --metrics or --ledger: what these cost, from so many runs without and as many "
        "with them, in turns, each in a process of its own",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="DIR",
        help="measure nothing, but write nodes and pods as files for `moorage schedule -f DIR`",
    )
    add_config_argument(parser)


def _add_api(parser: argparse.ArgumentParser) -> None:
    server = parser.add_mutually_exclusive_group(required=True)
    server.add_argument("--kubeconfig", metavar="FILE", help="the API server of this kubeconfig")
    server.add_argument("--server", metavar="URL", help="an API server without authentication")
    server.add_argument(
        "--start",
        action="store_true",
        help="start etcd and kube-apiserver for every run (of `make e2e` or KUBEBUILDER_ASSETS)",
    )
    _add_load(parser, "pods to bind")
    parser.add_argument(
        "--bound",
        type=positive(allow_zero=True),
        default=0,
        metavar="B",
        help="pods that are on nodes before the scheduler starts (default 0)",
    )
    parser.add_argument("--scheduler", metavar="CMD", help="what to start (default: Moorage)")
    parser.add_argument("--versus", metavar="CMD", help="another scheduler, measured in turn")
    parser.add_argument(
        "--rounds", type=positive(), metavar="R", help="runs of each (default: 1, with --versus 3)"
    )
    parser.add_argument(
        "--while-running", action="store_true", help="create the pods after the scheduler's start"
    )
    parser.add_argument(
        "--with-existing-nodes", action="store_true", help="go on where there are nodes already"
    )
    parser.add_argument(
        "--timeout",
        type=positive(),
        default=600,
        metavar="SECONDS",
        help="how long all bindings of a run may take (default 600)",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="bound pods over time")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def _add_perf(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        action="append",
        metavar="FILE",
        help="a performance-config.yaml (may be repeated)",
    )
    parser.add_argument(
        "--workload",
        metavar="NAME",
        help="a test case, or CASE/WORKLOAD, where * stands for anything",
    )
    parser.add_argument(
        "--label",
        metavar="LABELS",
        help="labels a workload must have, or not have (-LABEL), separated by commas: "
        f"performance, short, integration-test (default: {DEFAULT_LABEL}, with --workload any)",
    )
    parser.add_argument("--list", action="store_true", help="only name the workloads")
    parser.add_argument(
        "--api",
        action="store_true",
        help="through a real kube-apiserver, with the scheduler as a process",
    )
    parser.add_argument("--scheduler", metavar="CMD", help="with --api: what to start")
    parser.add_argument(
        "--timeout",
        type=positive(),
        default=600,
        metavar="SECONDS",
        help="how long one operation may wait for pods (default 600)",
    )
    parser.add_argument(
        "--data-items", type=Path, metavar="FILE", help="write upstream's DataItems JSON"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
