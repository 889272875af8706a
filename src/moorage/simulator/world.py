"""A cluster assembled from API objects, ready to be asked where a pod would go.

Owns the way from decoded objects and a configuration to a cluster state, its profiles and a cycle
(what the informers and the start-up code do in a live scheduler), and finding pods and profiles in
it by the name that a person typed. Makes no decisions itself.
"""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moorage.cluster.state import ClusterState
from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
)
from moorage.engine.clock import Clock, WallClock
from moorage.engine.cycle import Cycle
from moorage.errors import InputError
from moorage.framework.extenders import Extender
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import Handle, Plugin
from moorage.framework.plugin_files import register_plugin_files
from moorage.framework.pod_level import pod_level_adjustment
from moorage.framework.profile import Profile, build_profiles
from moorage.framework.registry import Registry
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry, with_devices


def full_registry(plugins: Iterable[type[Plugin]] = (), files: Iterable[str] = ()) -> Registry:
    """The in-tree plugins, those given, of installed packages, and of files (`--plugin`)."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.register(plugin)
    registry.register_entry_points()
    register_plugin_files(registry, files)
    return registry


class World:
    """A cluster, the profiles that schedule for it, and the pods that wait."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        *,
        registry: Registry | None = None,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        clock: Clock | None = None,
        reuse: bool = True,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self.state = ClusterState()
        clock = clock or WallClock()
        self.cycle = Cycle(self.state, clock, reuse=reuse, extenders=extenders)
        pacing = Pacing(time.monotonic)
        handle = with_devices(Handle(self.state.listers, gates, pacing=pacing, now=clock.now))
        self.profiles: dict[str, Profile] = build_profiles(
            config, registry or full_registry(), handle
        )
        self._adjust = pod_level_adjustment(gates)
        self.pending: list[Pod] = []
        """Pods without a node, in the order they were added."""

    def add_all(self, objects: Iterable[ApiObject]) -> None:
        """Add objects of any kinds, in any order.

        Nodes come first, and pods last in the order given. All others are taken by name, as the API
        server lists them: the order of nodes settles ties, the order of DeviceClasses which of them
        stands for an extended resource, and neither must depend on how somebody arranged a file.
        """
        pods: list[Pod] = []
        others: list[ApiObject] = []
        nodes: list[Node] = []
        for obj in objects:
            if isinstance(obj, Node):
                nodes.append(obj)
            elif isinstance(obj, Pod):
                pods.append(obj)
            else:
                others.append(obj)
        for node in sorted(nodes, key=lambda node: node.name):
            self._add_node(node)
        for obj in sorted(others, key=lambda obj: (obj.namespace, obj.name)):
            self.state.listers.of(type(obj)).put(obj)
        for pod in pods:
            self._add_pod(pod)

    def _add_node(self, node: Node) -> None:
        if node.name in self.state.nodes.row_of:
            raise InputError(f"node {node.name} is defined twice")
        self.state.add_node(node)

    def _add_pod(self, pod: Pod) -> None:
        if self._adjust is not None:
            pod = self._adjust(pod)
        # Upstream's informer leaves finished pods out altogether.
        if pod.finished:
            return
        if pod.spec.node_name:
            self.state.add_pod(pod)
            return
        self.pending.append(pod)
        if pod.status.nominated_node_name:
            self.cycle.nominated.add(pod, pod.status.nominated_node_name)


class NamedPod(NamedTuple):
    """A pod, and the node it is on (None: it waits)."""

    pod: Pod
    node: str | None


def find_subject(world: World, name: str, namespace: str = "default", where: str = "") -> NamedPod:
    """The pod called `namespace/name`; a bare name is looked for in `namespace`, then anywhere.

    `where` says in messages what was read.
    """
    known = [NamedPod(pod, None) for pod in world.pending]
    known += [NamedPod(pod, node) for pod, node in world.state.placed_pods()]
    found = _named(known, name, namespace)
    if found is not None:
        return found
    among = f"the {len(known)} pods that wait or run{f' in {where}' if where else ''}"
    raise InputError(
        f"pod {name} is not among {among}; pods are named NAMESPACE/NAME, or NAME where that is "
        "unique"
    )


def find_waiting_pod(world: World, name: str) -> Pod:
    """The pod of that name among those without a node."""
    found = _named([NamedPod(pod, None) for pod in world.pending], name, "default")
    if found is None:
        found = find_subject(world, name)
        raise InputError(
            f"pod {found.pod.key} is on node {found.node} already; only pods without a node are "
            "decided"
        )
    return found.pod


def _named(known: Sequence[NamedPod], name: str, namespace: str) -> NamedPod | None:
    if "/" in name:
        found = [subject for subject in known if subject.pod.key == name]
    else:
        found = [subject for subject in known if subject.pod.name == name]
        own = [subject for subject in found if subject.pod.namespace == namespace]
        found = own or found
    if len(found) > 1:
        keys = ", ".join(sorted(subject.pod.key for subject in found))
        raise InputError(f"several pods are called {name}: {keys}; name one in full")
    return found[0] if found else None


def profile_of(world: World, pod: Pod, wanted: str = "") -> Profile:
    """The profile that schedules the pod, or the one that is wanted whatever the pod says."""
    if wanted:
        return named_profile(world, wanted)
    name = pod.spec.scheduler_name
    profile = world.profiles.get(name)
    if profile is not None:
        return profile
    known = ", ".join(sorted(world.profiles))
    raise InputError(
        f"pod {pod.key} is another scheduler's: its schedulerName is {name}, and the profiles are: "
        f"{known}; --profile explains it with one of them"
    )


def named_profile(world: World, name: str) -> Profile:
    """The profile of a name that was asked for."""
    profile = world.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(world.profiles))
        raise InputError(f"--profile: there is no profile {name}; there are: {known}")
    return profile
