"""Answers of `moorage explain` from a cluster in files, or from one that is read once.

Owns the way from files or a kubeconfig to a world, and what is said of parts that could not be
read. The explaining is `explain.pods`' and `explain.nodes`'.
"""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from moorage.cli.configuration import (
    calls_ended_in_time,
    make_world,
    read_configuration,
    read_gates,
)
from moorage.cli.explain_sources import PodQuestion
from moorage.cli.output import warn
from moorage.cli.schedule import skipped_sentence
from moorage.errors import InputError, KubeconfigError
from moorage.explain.nodes import explain_node
from moorage.explain.pods import explain_pod
from moorage.explain.report import NodeExplanation, PodExplanation
from moorage.kube.access import Access
from moorage.kube.access_discovery import in_cluster_access, user_access
from moorage.kube.client import KubeClient, user_agent
from moorage.kube.http_extender import needs_source
from moorage.kube.kubeconfig import Kubeconfig, default_paths
from moorage.kube.live import watched_kinds
from moorage.kube.snapshot import Snapshot, pod_phase, read_cluster
from moorage.simulator.manifests import STANDARD_INPUT, load_manifests
from moorage.simulator.world import NamedPod, World, find_subject, named_profile, profile_of

_FINISHED = ("Succeeded", "Failed")
_RECONNECTS = 1
"""Who waits for an answer wants to be told soon that there is none; schedulers have more time."""


class _WorldSource:
    """A world with the profiles of the flags; `_where` says what was read into it."""

    kind: str
    _where: str

    def __init__(self, args: argparse.Namespace) -> None:
        self._world = empty_world(args)
        self._profile: str = args.profile

    def pod(self, asked: PodQuestion) -> PodExplanation:
        world, (pod, node) = self._world, self._find(asked.name)
        with calls_ended_in_time(world.handle.calls):
            return explain_pod(
                world.cycle,
                profile_of(world, pod, self._profile),
                pod,
                source=self.kind,
                placed_on=node,
                top=asked.top,
                nodes=asked.nodes,
                matrix=(0, asked.rows) if asked.rows else None,
                fixes=asked.fixes,
            )

    def node(self, name: str) -> NodeExplanation:
        world = self._world
        if name not in world.state.nodes.row_of:
            raise InputError(
                f"node {name} is not one of the {len(world.state)} nodes in {self._where}"
            )
        with calls_ended_in_time(world.handle.calls):
            return explain_node(
                world.cycle,
                world.profiles,
                name,
                source=self.kind,
                waiting=world.pending,
                profile=named_profile(world, self._profile) if self._profile else None,
            )

    def _find(self, name: str) -> NamedPod:
        return find_subject(self._world, name, where=self._where)


class ManifestSource(_WorldSource):
    """A cluster in manifests."""

    kind = "files"

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self._where = ", ".join(
            "standard input" if path == STANDARD_INPUT else path for path in args.paths
        )
        manifests = load_manifests(args.paths, sys.stdin)
        skipped = self._world.add_manifests(manifests)
        if skipped:
            warn(skipped_sentence(skipped))


class ClusterSource(_WorldSource):
    """A cluster that is read through its API; nothing is written to it."""

    kind = "cluster"

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self._access = cluster_access(args.kubeconfig or "", args.context)
        self._where = f"the cluster {self._access.address}"

    def node(self, name: str) -> NodeExplanation:
        self._read()
        return super().node(name)

    def _find(self, name: str) -> NamedPod:
        self._read(name if "/" in name else "")
        return find_subject(self._world, name, self._access.namespace, self._where)

    def _read(self, pod: str = "") -> None:
        """Read the cluster; a pod that is not there is noticed before that."""
        world = self._world
        # Everything that is made from now on stays to the end: looking for garbage finds none.
        gc.disable()
        try:
            with _logged_as_warnings():
                snapshot = _snapshot(self._access, world, pod)
            for kind, reason in snapshot.unread.items():
                warn(f"no {kind} is known, as they cannot be listed: {reason}")
            for name, objects in snapshot.custom.items():
                for obj in objects:
                    world.put(obj, name)
            world.add_all(snapshot.objects)
            gc.freeze()
        finally:
            gc.enable()


def empty_world(args: argparse.Namespace) -> World:
    """A world with the profiles of the flags."""
    gates = read_gates(args.feature_gates)
    configuration = read_configuration(args.config, gates)
    return make_world(configuration, args.config, gates=gates, plugins=args.plugins)


def cluster_access(kubeconfig: str, context: str) -> Access:
    """As kubectl finds its cluster: the file named, the usual files, then the pod's own account."""
    if not (kubeconfig or context):
        usual = Kubeconfig(default_paths(os.environ), must_exist=False)
        if usual.is_empty:
            access = in_cluster_access()
            if access is None:
                raise KubeconfigError(
                    f"there is no cluster to ask: {usual.source} does not exist or names none, and "
                    "this is no pod; give --kubeconfig, -f, --server or --ledger"
                )
            return access
    return user_access(kubeconfig, context)


def _snapshot(access: Access, world: World, pod: str) -> Snapshot:
    kinds = watched_kinds(world.profiles)
    keep = needs_source(world.cycle.extenders)
    found: list[Snapshot] = []

    async def read() -> None:
        # Few requests, all of which read: the rate that schedulers keep would only be waited for.
        agent = user_agent("explain")
        async with KubeClient(
            access, qps=0, agent=agent, read_only=True, reconnects=_RECONNECTS
        ) as client:
            if pod:
                await _check_pod(client, pod)
            found.append(await read_cluster(client, kinds, keep))

    # Not as the result of `read`: asyncio.run makes a text of the task and so of its result, which
    # for a large cluster takes longer than to read it.
    asyncio.run(read())
    return found[0]


async def _check_pod(client: KubeClient, key: str) -> None:
    namespace, _, name = key.partition("/")
    phase = await pod_phase(client, namespace, name)
    if phase is None:
        raise InputError(f"there is no pod {key} in the cluster {client.access.address}")
    if phase in _FINISHED:
        raise InputError(f"pod {key} has run to its end ({phase}): no scheduler looks at it")


@contextmanager
def _logged_as_warnings() -> Iterator[None]:
    """What the readers log of objects they cannot read, in the words of a command."""

    class Warn(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warn(record.getMessage())

    handler = Warn(logging.WARNING)
    log = logging.getLogger("moorage.kube")
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate
