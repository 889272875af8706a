"""`moorage kubelets`: simulated kubelets, and nodes if wanted, for any API server."""

import argparse
import asyncio
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from moorage.cli.arguments import add_command
from moorage.cli.output import say
from moorage.cli.startup import log_to_stderr
from moorage.connections.descriptors import raise_limit
from moorage.controllers.kubelet import FAKE, KubeletOptions
from moorage.kube.access import Access
from moorage.kube.access_discovery import user_access


def add_parser(commands: Any) -> None:
    """Add `moorage kubelets`."""
    add_command(commands, "kubelets", run)


def run(args: argparse.Namespace) -> int:
    """Run kubelets until told to stop."""
    from moorage.simulator.node_shapes import counted_shapes, parse_shape, shaped_nodes

    log_to_stderr()
    nodes: Sequence[Mapping[str, Any]] = ()
    if args.nodes is not None or args.shape:
        shapes = [parse_shape(text) for text in args.shape]
        nodes = shaped_nodes(counted_shapes(args.nodes, shapes))
    access = user_access(args.kubeconfig, args.context)
    raise_limit()
    asyncio.run(_run(access, options_of(args), nodes))
    return 0


def options_of(args: argparse.Namespace) -> KubeletOptions:
    """Which nodes are simulated, as KWOK's flags say it."""
    annotated, labelled = (
        args.manage_nodes_with_annotation_selector,
        args.manage_nodes_with_label_selector,
    )
    if annotated is None and labelled is None:
        annotated = labelled = FAKE
    return KubeletOptions(all_nodes=args.manage_all_nodes, annotated=annotated, labelled=labelled)


async def _run(access: Access, options: KubeletOptions, nodes: Sequence[Mapping[str, Any]]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    working = asyncio.create_task(_work(access, options, nodes))
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)


async def _work(
    access: Access, options: KubeletOptions, nodes: Sequence[Mapping[str, Any]]
) -> None:
    from moorage.local.kubelets import create_nodes, run_kubelets

    made = await create_nodes(access, nodes)
    if nodes:
        there = f", {len(nodes) - made} were there" if made < len(nodes) else ""
        say(f"{made} nodes created{there}")
    say(f"simulated kubelets at {access.address}; Ctrl-C ends them")
    await run_kubelets(access, options)
