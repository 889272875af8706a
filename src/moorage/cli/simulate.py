"""`moorage simulate`: what would become of a cluster, in virtual time."""

import argparse
from typing import Any

from moorage.cli.arguments import add_command
from moorage.cli.output import print_as, print_json, print_line, print_table, say
from moorage.connections.memory import collecting_rarely
from moorage.model.meta import Json

_OTHERS = ("openb", "schema", "scenario", "-h", "--help")
_ROWS = (
    ("pods placed", "placed", 1),
    ("pods pending in the end", "pending", 1),
    ("pods preempted", "preempted", 1),
    ("waiting p50, s", "waitingP50", 1),
    ("waiting p90, s", "waitingP90", 1),
    ("waiting p99, s", "waitingP99", 1),
    ("completion p50, s", "completionP50", 1),
    ("makespan, s", "makespan", 1),
    ("CPU allocated, mean %", "cpuMean", 100),
    ("memory allocated, mean %", "memoryMean", 100),
    ("imbalance of CPU, %", "imbalance", 100),
)
"""What the table shows, under which name the summary has it, and in which unit."""


def add_parser(commands: Any) -> None:
    """Add `moorage simulate`."""
    kinds = {"scenario": _run_scenario, "openb": _run_openb, "schema": _print_schema}
    add_command(commands, "simulate", kinds)


def spelled_out(words: list[str]) -> list[str]:
    """`moorage simulate FILE` with the word that is left out there."""
    if words[:1] == ["simulate"] and len(words) > 1 and words[1] not in _OTHERS:
        return ["simulate", "scenario", *words[1:]]
    return words


@collecting_rarely()
def _run_scenario(args: argparse.Namespace) -> int:
    from moorage.scenarios.runs import run_scenario
    from moorage.scenarios.scenario_file import ScenarioFile

    def tell(name: str, seed: int) -> None:
        say(f"{name}, seed {seed} ...")

    result = run_scenario(ScenarioFile(args.scenario), tell)
    if args.output == "table":
        _print_summary(result)
    else:
        print_as(args.output, result)
    return 0


def _print_summary(result: Json) -> None:
    schedulers = result["schedulers"]
    header = ["", *(scheduler["name"] for scheduler in schedulers)]
    rows = [
        [title, *(_figure(scheduler["summary"][name], unit) for scheduler in schedulers)]
        for title, name, unit in _ROWS
    ]
    print_table(header, rows, right=" " + "r" * len(schedulers))
    print()
    for scheduler in schedulers:
        for run in scheduler["runs"]:
            took = f"{run['seconds']:,.0f} s of virtual time"
            print_line(f"{scheduler['name']}, seed {run['seed']}: {took}; {run['ended']}")


def _figure(value: Json | None, unit: int) -> str:
    if value is None:
        return "-"
    text = f"{unit * value['mean']:,.2f}"
    return f"{text} ± {unit * value['plusMinus']:,.2f}" if value["plusMinus"] else text


def _print_schema(args: argparse.Namespace) -> int:
    from moorage.scenarios.scenario import scenario_schema

    del args
    print_json(scenario_schema())
    return 0


@collecting_rarely()
def _run_openb(args: argparse.Namespace) -> int:
    from moorage.scenarios.openb import run_openb, write_curve
    from moorage.scenarios.openb_trace import read_nodes, read_order, read_pods

    nodes, pods = read_nodes(args.nodes), read_pods(args.pods)
    order = read_order(args.order, len(pods), len(nodes))
    allocation = run_openb(nodes, pods, order, args.policy, args.seed)
    write_curve(args.curve, allocation, args.pods, args.policy, args.seed)
    arrived = len(allocation.asked)
    print_line(
        f"{args.policy}: {allocation.placed:,} of {arrived:,} pods placed; {allocation.gpus:,} GPUs"
    )
    curve = allocation.curve()
    for percent in (80, 100, 130):
        allocated = curve[percent]
        if allocated is not None:
            print_line(f"  {allocated:6.2f} % allocated when {percent} % were asked for")
    return 0
