"""`moorage simulate`: what would become of a cluster, in virtual time."""

import argparse
from typing import Any

from moorage.cli.arguments import add_command
from moorage.cli.output import print_line
from moorage.connections.memory import collecting_rarely


def add_parser(commands: Any) -> None:
    """Add `moorage simulate`."""
    add_command(commands, "simulate", {"openb": _run_openb})


@collecting_rarely()
def _run_openb(args: argparse.Namespace) -> int:
    from moorage.simulator.openb import run_openb, write_curve
    from moorage.simulator.openb_trace import read_nodes, read_order, read_pods

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
