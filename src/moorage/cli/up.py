"""`moorage up`: a whole cluster in one process, for trying things out."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moorage.cli.arguments import add_command, kubeconfig_path
from moorage.cli.configuration import read_configuration, read_gates
from moorage.cli.output import counted, fail, print_line, print_table, say, warn
from moorage.cli.startup import log_to_stderr
from moorage.config import FeatureGates, KubeSchedulerConfiguration
from moorage.connections.descriptors import raise_limit
from moorage.controllers.triggers import FOLLOWED
from moorage.errors import InputError
from moorage.model.pod import Pod
from moorage.simulator.manifests import read_documents

if TYPE_CHECKING:  # loaded only where it is needed
    from moorage.app.plugin_reload import PluginFiles
    from moorage.app.reload import Reloader
    from moorage.local.api_server import OtherApi
    from moorage.local.cluster import LocalCluster

_SETTLE_SECONDS = 120.0
_DEFAULT_NODES = 3
_INTERRUPTED = 130


def add_parser(commands: Any) -> None:
    """Add `moorage up`."""
    add_command(commands, "up", run)


def run(args: argparse.Namespace) -> int:
    """Run the cluster until told to stop, or until it has settled."""
    if args.v is None:
        log_to_stderr()
    else:
        from moorage.app.logs import LoggingOptions, configure_logging

        configure_logging(LoggingOptions(verbosity=args.v))
    if args.nodes is not None and args.nodes < 0:
        raise InputError(f"--nodes: expected a number of nodes, got {args.nodes}")
    nodes = _nodes(args)
    # Before the loop takes the signals over: Ctrl-C must end a wait for standard input.
    documents = list(read_documents(args.paths, sys.stdin))
    raise_limit()
    with _other_api(args) as other:
        return asyncio.run(_up(args, documents, nodes, other))


Documents = Sequence[tuple[Mapping[str, Any], str]]
Nodes = Sequence[Mapping[str, Any]]


def _nodes(args: argparse.Namespace) -> Nodes:
    """The nodes that the flags ask for; a few where nothing says what there is."""
    from moorage.simulator.node_shapes import counted_shapes, parse_shape, shaped_nodes

    shapes = [parse_shape(text) for text in args.shape]
    count = args.nodes
    if count is None and not (args.paths or shapes or args.kubeconfig):
        count = _DEFAULT_NODES
    return shaped_nodes(counted_shapes(count, shapes))


def _other_api(args: argparse.Namespace) -> AbstractContextManager["OtherApi | None"]:
    """The API server that the flags name; None for the embedded one."""
    from moorage.local.api_server import existing_api, real_api

    flag = "--kubeconfig" if args.kubeconfig is not None else "--control-plane"
    if args.kubeconfig is None and args.control_plane is None:
        return nullcontext(None)
    if args.kubeconfig is not None and args.control_plane is not None:
        raise InputError("--kubeconfig and --control-plane name two API servers: give one of them")
    for other, given in (("--data", args.data), ("--port", args.port)):
        if given:
            raise InputError(f"{other} is for the embedded API server, not for that of {flag}")
    if args.kubeconfig is None:
        return real_api(args.control_plane, args.feature_gates)
    if args.write_kubeconfig is not None:
        raise InputError("--write-kubeconfig: with --kubeconfig there is one already")
    return nullcontext(existing_api(args.kubeconfig, args.context))


async def _up(
    args: argparse.Namespace, documents: Documents, nodes: Nodes, other: "OtherApi | None"
) -> int:
    from moorage.app.plugin_reload import PluginFiles
    from moorage.local.cluster import LocalCluster

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    gates = read_gates(args.feature_gates)
    config, plugins = read_configuration(args.config, gates), PluginFiles(args.plugins)
    cluster = LocalCluster(
        config,
        plugins.registry(),
        gates,
        data=args.data,
        other=other,
    )
    try:
        # Nobody could look at a page that is gone as soon as everything is placed.
        page_port = None if args.no_page or args.once else args.page_port
        await cluster.start(args.port, page_port, documents)
        reloader = None if args.once else _reloader(args, cluster, config, plugins, gates)
        code = await _until_stopped(
            _serve(args, cluster, documents, nodes, other, reloader), cluster, other, stop
        )
    finally:
        await cluster.stop()
    if code is None:
        return _INTERRUPTED if args.once else 0
    return code


async def _until_stopped(
    work: Coroutine[Any, Any, int],
    cluster: "LocalCluster",
    other: "OtherApi | None",
    stop: asyncio.Event,
) -> int | None:
    """The exit code of `work`, or 1 if the scheduler ends before it; None if told to stop."""
    working = asyncio.create_task(work)
    scheduling = asyncio.create_task(cluster.run_forever())
    stopped = asyncio.create_task(stop.wait())
    tasks = [working, scheduling, stopped]
    if other is not None:
        tasks.append(asyncio.create_task(other.watch()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if stopped.done():
            return None
        if scheduling.done():
            error = scheduling.exception()
            why = "it stopped" if error is None else str(error) or type(error).__name__
            return fail(f"the scheduler has ended: {why}")
        for task in tasks:
            if task.done():
                task.result()  # raises what went wrong
        return working.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _reloader(
    args: argparse.Namespace,
    cluster: "LocalCluster",
    config: KubeSchedulerConfiguration,
    plugins: "PluginFiles",
    gates: FeatureGates,
) -> "Reloader":
    """What takes up a saved configuration or file with plugins, and tells of plugins that fail."""
    from moorage.app.config_sources import ConfigSource
    from moorage.app.plugin_faults import report_faults
    from moorage.app.reload import Reloader, subject
    from moorage.framework.faults import DEFAULT_ROW

    async def load(_: object) -> KubeSchedulerConfiguration:
        return read_configuration(args.config, gates)

    name = str(args.config)
    live, recorder = cluster.live, cluster.recorder
    assert live is not None, "the cluster was started"
    assert recorder is not None, "the cluster was started"
    lease = config.leader_election
    regarding = subject(
        "Lease", "coordination.k8s.io/v1", lease.resource_namespace, lease.resource_name
    )
    report_faults(live.scheduler.handle, regarding, row=DEFAULT_ROW)
    return Reloader(
        live,
        ConfigSource(name, load, file=name) if args.config else None,
        config,
        plugins,
        client=cluster.client(),
        recorder=recorder,
        metrics=cluster.metrics.operations,
        regarding=regarding,
        read=config,
        tell=say,
    )


async def _serve(
    args: argparse.Namespace,
    cluster: "LocalCluster",
    documents: Documents,
    nodes: Nodes,
    other: "OtherApi | None",
    reloader: "Reloader | None" = None,
) -> int:
    from moorage.local.creation import STORAGE_CLASS, apply_documents, create_missing

    say(f"API server at {cluster.access.address}")
    if cluster.console is not None:
        say(f"Page at {cluster.console.url}")
    assert cluster.live is not None, "the cluster was started"
    basics = list(nodes)
    ours = not (args.no_controllers or await _has_controllers(other))
    if ours and not any(one.get("kind") == "StorageClass" for one, _ in documents):
        basics.append(STORAGE_CLASS)
    client = cluster.client()
    await create_missing(client, basics)
    kinds = {*cluster.live.informers.kinds, *(() if args.no_controllers else FOLLOWED.values())}
    for kind, count in (await apply_documents(client, documents, kinds)).items():
        warn(f"{count} of kind {kind or '(none)'} skipped: a scheduler has no use for it")
    say(f"{len(nodes) + len(documents)} objects created")
    if ours:
        cluster.start_controllers()
    if args.once:
        return await _once(cluster)
    with _kubeconfig(args, cluster, other) as kubeconfig:
        say(f"\ntry:  kubectl --kubeconfig {kubeconfig} get pods -A -o wide\nCtrl-C ends it.")
        assert reloader is not None, "it is there unless the cluster is to end by itself"
        await reloader.run()  # until cancelled
    return 0


async def _has_controllers(other: "OtherApi | None") -> bool:
    """Are there controllers beside ours? Then it is said."""
    if other is None or not await other.has_controllers():
        return False
    say("controllers: kube-controller-manager's")
    return True


@contextmanager
def _kubeconfig(
    args: argparse.Namespace, cluster: "LocalCluster", other: "OtherApi | None"
) -> Iterator[Path]:
    """The kubeconfig for users; it is written unless it was given."""
    if args.kubeconfig is not None:
        yield Path(args.kubeconfig)
        return
    with kubeconfig_path(args.write_kubeconfig) as path:
        if other is None:
            cluster.server.write_kubeconfig(path)
        else:
            other.write_kubeconfig(path)
        yield path


async def _once(cluster: "LocalCluster") -> int:
    settled = await cluster.settled(_SETTLE_SECONDS)
    assert cluster.live is not None, "the cluster was started"
    pods = [
        pod for pod in cluster.live.informers.stores["Pod"].objects.values() if isinstance(pod, Pod)
    ]
    rows = [(pod.namespace, pod.name, *_outcome(pod)) for pod in sorted(pods, key=lambda p: p.key)]
    print_table(("NAMESPACE", "POD", "NODE", "MESSAGE"), rows)
    placed = sum(bool(pod.spec.node_name) for pod in pods)
    print()
    print_line(f"{len(pods)} pods: {placed} on nodes, {len(pods) - placed} waiting")
    if not settled:
        warn(f"the cluster had not settled after {_SETTLE_SECONDS:.0f} s")
        return 1
    if failing := len(cluster.failing):
        return fail(f"{counted(failing, 'pod')}: every attempt ends in an error")
    return 0


def _outcome(pod: Pod) -> tuple[str, str]:
    if pod.spec.node_name:
        return pod.spec.node_name, ""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return f"<{condition.reason}>", condition.message
    return "<pending>", f"schedulerName is {pod.spec.scheduler_name}"
