"""`moorage bench api`: a whole scheduler at a real API server, alone or against another one."""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from moorage.benchmarks.api_bench import ApiLoad, ApiMeasurement, measure_api
from moorage.benchmarks.app_workloads import PODS_PER_NODE
from moorage.benchmarks.comparison import (
    FIGURES,
    SchedulerComparison,
    bound_pods_svg,
    compare,
    run_rounds,
)
from moorage.benchmarks.progress import Progress
from moorage.benchmarks.scheduler_command import SchedulerCommand, moorage_command, parse_command
from moorage.cli.output import fail, print_json, print_line, print_table, say, write_file
from moorage.controlplane.plane import control_plane, find_binaries, write_kubeconfig
from moorage.errors import InputError, ProcessError
from moorage.kube.access_discovery import user_access


def run(args: argparse.Namespace) -> int:
    """Measure and tell."""
    room = args.nodes * PODS_PER_NODE
    if args.bound and args.bound + args.pods > room:
        raise InputError(
            f"--nodes {args.nodes} has room for {room} pods, not for the {args.bound + args.pods} "
            "of --bound and --pods"
        )
    binaries = find_binaries() if args.start else None
    commands = [moorage_command()]
    if args.scheduler:
        commands = [parse_command(args.scheduler, binaries)]
    if args.versus:
        commands.append(parse_command(args.versus, binaries))
        if commands[0].name == commands[1].name:
            commands[1] = SchedulerCommand(f"{commands[1].name}-2", commands[1].words)
    rounds = args.rounds or (3 if args.versus else 1)
    try:
        runs = asyncio.run(_measure(args, commands, rounds))
    except ProcessError as error:
        say(error.log_end)
        return fail(f"{error}; the end of its log is above")
    result = compare(commands, runs)
    if args.plot is not None:
        title = f"{args.workload}: {args.pods:,} pods on {args.nodes:,} nodes"
        write_file(args.plot, bound_pods_svg(title, runs).encode())
    if args.json:
        print_json(_as_json(args, runs, result))
    else:
        _print(args, commands, result, rounds)
    return 0


async def _measure(
    args: argparse.Namespace, commands: list[SchedulerCommand], rounds: int
) -> list[ApiMeasurement]:
    progress = Progress()
    load = ApiLoad(
        nodes=args.nodes,
        pods=args.pods,
        workload=args.workload,
        while_running=args.while_running,
        timeout=float(args.timeout),
        existing_nodes=args.with_existing_nodes,
        bound=args.bound,
    )

    async def measure(command: SchedulerCommand) -> ApiMeasurement:
        with _server(args, progress) as kubeconfig:
            access = user_access(str(kubeconfig))
            return await measure_api(
                access, kubeconfig, command, load, progress, disposable=args.start
            )

    return await run_rounds(commands, rounds, measure)


@contextmanager
def _server(args: argparse.Namespace, progress: Progress) -> Iterator[Path]:
    """The kubeconfig of the API server to use."""
    with ExitStack() as stack:
        if args.kubeconfig:
            yield Path(args.kubeconfig)
        elif args.server:
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="moorage-bench-"))
            yield write_kubeconfig(Path(name, "kubeconfig"), {"server": args.server}, {})
        else:
            binaries = find_binaries()
            with progress.phase("control plane started"):
                plane = stack.enter_context(control_plane(binaries))
            yield plane.kubeconfig()


def _as_json(
    args: argparse.Namespace, runs: list[ApiMeasurement], result: SchedulerComparison
) -> dict[str, Any]:
    return {
        "nodes": args.nodes,
        "pods": args.pods,
        "bound": args.bound,
        "workload": args.workload,
        "while_running": args.while_running,
        "runs": msgspec.to_builtins(runs),
        **msgspec.to_builtins(result),
    }


def _print(
    args: argparse.Namespace,
    commands: list[SchedulerCommand],
    result: SchedulerComparison,
    rounds: int,
) -> None:
    of = f", median of {rounds}" if rounds > 1 else ""
    bound = f" with {args.bound:,} pods on them" if args.bound else ""
    print_line(f"{args.workload}: {args.pods:,} pods on {args.nodes:,} nodes{bound}{of}")
    header = ["", *(command.name for command in commands)]
    if result.ratios:
        header.append("RATIO")
    rows = []
    for field, heading in FIGURES.items():
        row = [heading]
        row += [_number(result.medians[command.name][field]) for command in commands]
        if result.ratios:
            row.append(f"{result.ratios[field]:.2f}" if field in result.ratios else "")
        rows.append(row)
    print_table(header, rows, right=" rrr")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
