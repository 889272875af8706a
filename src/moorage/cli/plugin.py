"""`moorage plugin`: check plugins, and try expressions, before a configuration names them."""

import argparse
import logging
import sys
from collections import Counter
from typing import Any

import msgspec

from moorage.cli.arguments import add_command
from moorage.cli.configuration import calls_ended_in_time, read_configuration
from moorage.cli.output import fail, print_as, print_line, print_table

NO_NODE = 3


def add_parser(commands: Any) -> None:
    """Add `moorage plugin`."""
    add_command(commands, "plugin", {"check": _check, "try": _try})


def _check(args: argparse.Namespace) -> int:
    from moorage.plugins.defaults import in_tree_registry
    from moorage.simulator.plugin_files import PluginFile, load_plugin_file

    configuration, registry = read_configuration(args.config), in_tree_registry()
    failed = 0
    for plugin, source in load_plugin_file(PluginFile.parse(args.file)):
        registry.register(plugin, source)
        found = (profile.args_for(plugin.name) for profile in configuration.profiles)
        complaint = _complaint(plugin, next((one for one in found if one is not None), None), args)
        if complaint:
            failed = fail(f"{source}: {complaint}")
        else:
            print_line(f"{plugin.name}: passed all checks")
    return failed


def _complaint(plugin: Any, plugin_args: Any, args: argparse.Namespace) -> str:
    """What is wrong with a plugin; empty if nothing is."""
    from random import Random

    from moorage.framework.calls import watched
    from moorage.framework.pacing import PluginCalls
    from moorage.simulator.manifests import load_manifests
    from moorage.testing import PluginCheckError, check_plugin
    from moorage.testing.plugin_checks import check_plugin_here, some_of

    logging.disable()  # what goes wrong is said in one sentence
    calls = PluginCalls()
    plugin = watched(plugin, calls, "")
    try:
        with calls_ended_in_time(calls):
            check_plugin(plugin, plugin_args)
            if args.paths:
                world = _world(load_manifests(args.paths, sys.stdin))
                placed = [pod for pod, _ in world.state.placed_pods()]
                state = some_of(world.state, Random(0))
                check_plugin_here(plugin, plugin_args, state, [*world.pending, *placed])
    except PluginCheckError as error:
        return str(error).removeprefix(f"{plugin.name}: ")  # the class is named already
    finally:
        logging.disable(logging.NOTSET)
    return ""


def _world(manifests: Any) -> Any:
    from moorage.config import default_config
    from moorage.simulator.world import World

    world = World(default_config())
    world.add_manifests(manifests)
    return world


def _try(args: argparse.Namespace) -> int:
    from moorage.simulator.expressions import try_expression
    from moorage.simulator.manifests import load_manifests

    world = _world(load_manifests(args.paths, sys.stdin))
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
