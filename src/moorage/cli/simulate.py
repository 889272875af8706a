"""`moorage simulate`: what would become of a cluster, in virtual time."""

import argparse
from typing import Any

from moorage.cli import replay
from moorage.cli.arguments import add_command
from moorage.cli.output import print_as, print_json, print_line, say
from moorage.connections.memory import collecting_rarely

_OTHERS = ("openb", "replay", "schema", "scenario", "-h", "--help")


def add_parser(commands: Any) -> None:
    """Add `moorage simulate`."""
    kinds = {
        "scenario": _run_scenario,
        "replay": replay.run,
        "openb": _run_openb,
        "schema": _print_schema,
    }
    add_command(commands, "simulate", kinds)


def spelled_out(words: list[str]) -> list[str]:
    """`moorage simulate FILE` with the word that is left out there; recordings are compressed."""
    if words[:1] == ["simulate"] and len(words) > 1 and words[1] not in _OTHERS:
        return ["simulate", "replay" if words[1].endswith(".gz") else "scenario", *words[1:]]
    return words


@collecting_rarely()
def _run_scenario(args: argparse.Namespace) -> int:
    from moorage.cli.simulate_tables import print_result
    from moorage.scenarios.report import report, report_library, write_report
    from moorage.scenarios.result_tables import (
        check_table_path,
        run_table,
        sample_table,
        write_table,
    )
    from moorage.scenarios.runs import run_scenario
    from moorage.scenarios.scenario_file import ScenarioFile

    def tell(name: str, seed: int) -> None:
        say(f"{name}, seed {seed} ...")

    for path in (args.runs, args.samples):
        if path is not None:
            check_table_path(path)
    library = "" if args.report is None else report_library(args.report)
    result = run_scenario(ScenarioFile(args.scenario), tell)
    if args.runs is not None:
        write_table(args.runs, run_table(result))
    if args.samples is not None:
        write_table(args.samples, sample_table(result))
    if args.report is not None:
        write_report(args.report, report(result, args.scenario.name, library))
    if args.output == "table":
        print_result(result)
    else:
        print_as(args.output, result)
    return 0


def _print_schema(args: argparse.Namespace) -> int:
    from moorage.scenarios.schema import scenario_schema

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
