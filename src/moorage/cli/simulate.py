"""`moorage simulate`: what would become of a cluster, in virtual time."""

import argparse
from collections.abc import Iterator
from typing import Any

from moorage.cli.arguments import add_command
from moorage.cli.output import print_as, print_json, print_line, print_table, say
from moorage.connections.memory import collecting_rarely
from moorage.model.meta import Json

_OTHERS = ("openb", "schema", "scenario", "-h", "--help")
_ROWS = (
    ("pods placed", "pods.placed", 1),
    ("pods pending in the end", "pods.pending", 1),
    ("pods preempted", "pods.preempted", 1),
    ("pods evicted", "pods.evicted", 1),
    ("pods moved", "pods.moved", 1),
    ("waiting p50, s", "waitingSeconds.p50", 1),
    ("waiting p90, s", "waitingSeconds.p90", 1),
    ("waiting p99, s", "waitingSeconds.p99", 1),
    ("completion p50, s", "completionSeconds.p50", 1),
    ("makespan, s", "makespanSeconds", 1),
    ("fairness", "fairness", 1),
    ("nodes, mean", "nodes.mean", 1),
    ("cost", "cost", 1),
)
"""What the table shows, under which name the summary has it, and in which unit."""
_BY_RESOURCE = (
    ("{} allocated, mean %", "allocation.{}.mean", 100),
    ("{} used, mean %", "utilisation.{}.mean", 100),
    ("{} free in vain, %", "fragmentation.{}.mean", 100),
    ("imbalance of {}, %", "imbalance.{}", 100),
    ("zones' skew of {}, %", "zoneSkew.{}", 100),
)
_TITLES = {"cpu": "CPU"}


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
        [title, *(_figure(scheduler["summary"].get(name), unit) for scheduler in schedulers)]
        for title, name, unit in (*_ROWS, *_resource_rows(result))
        if any(name in scheduler["summary"] for scheduler in schedulers)
    ]
    print_table(header, rows, right=" " + "r" * len(schedulers))
    print()
    for scheduler in schedulers:
        for run in scheduler["runs"]:
            took = f"{run['seconds']:,.0f} s of virtual time"
            print_line(f"{scheduler['name']}, seed {run['seed']}: {took}; {run['ended']}")


def _resource_rows(result: Json) -> Iterator[tuple[str, str, int]]:
    """Those of the resources that pods ask for."""
    summaries = [scheduler["summary"] for scheduler in result["schedulers"]]
    first, last = "allocation.", ".mean"
    names = {
        name[len(first) : -len(last)]
        for one in summaries
        for name in one
        if name.startswith(first) and name.endswith(last) and one[name]["mean"]
    }
    for title, name, unit in _BY_RESOURCE:
        for resource in sorted(names - {"pods"}):
            yield title.format(_TITLES.get(resource, resource)), name.format(resource), unit


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
    from moorage.scenarios.traces.openb import read_nodes, read_order, read_pods

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
