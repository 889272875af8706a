"""`moorage plugin`: try an expression before it is put into a configuration."""

import argparse
import sys
from collections import Counter
from typing import Any

import msgspec

from moorage.cli.arguments import add_command
from moorage.cli.output import print_as, print_line, print_table

NO_NODE = 3


def add_parser(commands: Any) -> None:
    """Add `moorage plugin`."""
    add_command(commands, "plugin", {"try": _try})


def _try(args: argparse.Namespace) -> int:
    from moorage.config import default_config
    from moorage.simulator.expressions import try_expression
    from moorage.simulator.manifests import load_manifests
    from moorage.simulator.world import World

    world = World(default_config())
    world.add_all(load_manifests(args.paths, sys.stdin).objects)
    trial = try_expression(args.expression, world, args.pod)
    if args.output == "table":
        _print_trial(trial, args.top)
    else:
        shown = msgspec.structs.replace(trial, nodes=trial.nodes[: args.top])
        print_as(args.output, msgspec.to_builtins(shown))
    return NO_NODE if trial.is_filter and not any(n.value for n in trial.nodes) else 0


def _print_trial(trial: Any, top: int) -> None:
    if trial.nodes:
        header = ("NODE", "PASSES" if trial.is_filter else "VALUE", "ERROR")
        rows = [(node.name, _shown(node.value), node.error) for node in trial.nodes[:top]]
        print_table(header, rows, right="" if trial.is_filter else " r")
        print()
    outcomes = Counter(_outcome(node, is_filter=trial.is_filter) for node in trial.nodes)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    how = "for all nodes at once" if trial.in_columns else "node by node"
    about = f" for pod {trial.pod}" if trial.pod else ""
    print_line(f"{len(trial.nodes)} nodes{about}: {counts or 'none to ask'}; evaluated {how}")


def _shown(value: bool | int | None) -> str:
    if value is None:
        return "-"
    return str(value).lower()


def _outcome(node: Any, *, is_filter: bool) -> str:
    if node.value is None:
        return f"failed ({node.error})"
    if not is_filter:
        return "with a value"
    return "pass" if node.value else "do not"
