"""`moorage simulate`: what would become of a cluster, in virtual time."""

import argparse
from typing import TYPE_CHECKING, Any

from moorage.cli import replay
from moorage.cli.arguments import add_command
from moorage.cli.output import print_as, print_json, print_line
from moorage.connections.memory import collecting_rarely
from moorage.errors import InputError

if TYPE_CHECKING:
    from moorage.scenarios.scenario_file import ScenarioFile

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
    from moorage.cli.simulate_files import ResultFiles
    from moorage.cli.simulate_progress import RunProgress
    from moorage.cli.simulate_tables import print_result
    from moorage.scenarios.run_ledgers import RunLedgers
    from moorage.scenarios.runs import run_scenario
    from moorage.scenarios.scenario_file import ScenarioFile
    from moorage.scenarios.simulation import Simulation

    file = ScenarioFile(args.scenario)
    if args.explain is not None:
        return _explain(args, file)
    files, progress = ResultFiles(args), RunProgress()
    with RunLedgers(args.ledger) as ledgers:

        def watch(name: str, seed: int, run: Simulation) -> None:
            progress.watch(name, seed, run)
            ledgers.watch(name, seed, run)

        try:
            result = run_scenario(file, watch, args.by_label)
        finally:
            progress.clear()
    files.write(result)
    if args.output == "table":
        print_result(result)
    else:
        print_as(args.output, result)
    return 0


def _explain(args: argparse.Namespace, file: "ScenarioFile") -> int:
    from moorage.cli.explain import print_explained
    from moorage.cli.explain_output import print_pod
    from moorage.model.duration import parse_duration
    from moorage.scenarios.moments import explain_at

    pod, _, at = args.explain.rpartition("@")
    try:
        since = parse_duration(at).seconds
    except ValueError:
        since = -1.0
    if not pod or since < 0:
        raise InputError(f"--explain: expected POD@TIME such as web-1@90m, got {args.explain!r}")
    scenario = file.scenario
    schedulers = {one.name: one for one in scenario.schedulers}
    name = args.scheduler or scenario.schedulers[0].name
    if name not in schedulers:
        known = ", ".join(schedulers)
        raise InputError(f"--scheduler: there is no scheduler {name}; there are: {known}")
    seed = scenario.repetitions.seed if args.seed is None else args.seed
    print_explained(explain_at(file, schedulers[name], seed, pod, at), print_pod, args.output)
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
