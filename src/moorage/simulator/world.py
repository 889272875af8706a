"""A cluster assembled from API objects, ready to be asked where a pod would go.

Owns the way from decoded objects and a configuration to a cluster state, its profiles and a cycle
(what the informers and the start-up code do in a live scheduler), and finding pods and profiles in
it by the name that a person typed. Makes no decisions itself.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from moorage.cluster.state import ClusterState
from moorage.config import (
    DEFAULT_FEATURE_GATES,
    FeatureGates,
    KubeSchedulerConfiguration,
)
from moorage.config.pod_level import pod_level_adjustment
from moorage.engine.clock import Clock, WallClock
from moorage.engine.cycle import Cycle
from moorage.errors import DecodeError, InputError
from moorage.framework.api_access import ApiAccess
from moorage.framework.extenders import Extender
from moorage.framework.pacing import Pacing
from moorage.framework.plugin import Handle, Plugin
from moorage.framework.profile import Profile, build_profiles, named_kinds
from moorage.framework.registry import Registry
from moorage.gallery.catalogue import GALLERY
from moorage.model.custom import CUSTOM_RESOURCE_DEFINITION, Definitions, custom_object, kind_of
from moorage.model.decode import sentence, without_nulls
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry, with_devices
from moorage.simulator.api import SimulatedClient, keep_event
from moorage.simulator.manifests import Manifests
from moorage.simulator.plugin_files import register_plugin_files


def full_registry(plugins: Iterable[type[Plugin]] = (), files: Iterable[str] = ()) -> Registry:
    """All plugins: in-tree, of the gallery, given, of installed packages, of files (`--plugin`)."""
    registry = in_tree_registry()
    for plugin in (*GALLERY, *plugins):
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
        pacing, api = Pacing(time.monotonic), ApiAccess(later=True)
        self.handle = with_devices(
            Handle(self.state.listers, gates, pacing=pacing, now=clock.now, api=api)
        )
        api.client, api.write_event = SimulatedClient(self), self.write_event
        self.profiles: dict[str, Profile] = build_profiles(
            config, registry or full_registry(), self.handle
        )
        plugins = (p for profile in self.profiles.values() for p in profile.plugins.values())
        self._looked_up = {str(kind) for plugin in plugins for kind in named_kinds(plugin)}
        self._pods = self.state.listers.of(Pod)
        self._adjust = pod_level_adjustment(gates)
        self.pending: list[Pod] = []
        """Pods without a node, in the order they were added."""

    def add_manifests(self, manifests: Manifests) -> dict[str, int]:
        """Add what was read; returns how many there were of each kind that nobody looks at.

        Objects that the model has no type for are there for plugins: what they look up must be
        sound, the rest is at their client's disposal if it is.
        """
        definitions = Definitions(data for data, _ in manifests.others)
        unused: dict[str, int] = {}
        for data, where in manifests.others:
            name, content = definitions.place(without_nulls(data))
            kind = content["kind"]
            if str(name) not in self._looked_up and kind != CUSTOM_RESOURCE_DEFINITION:
                unused[kind] = unused.get(kind, 0) + 1
            try:
                self.put(custom_object(content), str(name))
            except DecodeError as error:
                if str(name) in self._looked_up:
                    subject = f"{kind} {content['metadata'].get('name', '')}"
                    raise DecodeError(sentence(where, subject, str(error))) from None
        self.add_all(manifests.objects)
        return unused

    def objects(self, kind: type[ApiObject] | str) -> Iterable[ApiObject]:
        """All objects of a kind, or of a custom resource."""
        return self.state.nodes.nodes if kind is Node else self.state.listers.of(kind)

    def find(self, kind: type[ApiObject] | str, name: str, namespace: str) -> ApiObject | None:
        if kind is Node:
            row = self.state.nodes.row_of.get(name)
            return None if row is None else self.state.nodes.nodes[row]
        return self.state.listers.of(kind).get(name, namespace)

    def put(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object was made or changed by a plugin, or comes with the manifests."""
        if isinstance(obj, Node):
            self.state.add_node(obj)
        elif isinstance(obj, Pod):
            self._change_pod(obj)
        else:
            self.state.listers.put(obj, kind)

    def remove(self, obj: ApiObject, kind: type[ApiObject] | str) -> None:
        """An object was deleted by a plugin."""
        if isinstance(obj, Node):
            self.state.remove_node(obj.name)
        elif isinstance(obj, Pod):
            self._pods.remove(obj)
            self.pending = [pod for pod in self.pending if pod.uid != obj.uid]
            if self.state.node_of(obj) is not None:
                self.state.remove_pod(obj)
        else:
            self.state.listers.remove(obj, kind)

    def now(self) -> float:
        """Seconds since the epoch."""
        return self.cycle.clock.now()

    def write_event(self, *args: Any, **fields: Any) -> None:
        """Keep an event, as an API server would."""
        keep_event(self.state.listers, *args, **fields)

    def placed(self, pod: Pod, node_name: str) -> None:
        self._pods.put(pod.on_node(node_name))

    def evicted(self, pod: Pod) -> None:
        self.state.remove_pod(pod)
        self._pods.remove(pod)

    def _change_pod(self, pod: Pod) -> None:
        self._pods.put(pod)
        if self.state.is_assumed(pod) or self.state.node_of(pod) is None:
            if any(other.uid == pod.uid for other in self.pending):
                self.pending = [pod if other.uid == pod.uid else other for other in self.pending]
            elif pod.spec.node_name:
                self.state.add_pod(pod)
            else:
                self.pending.append(pod)
        else:
            self.state.update_pod(pod)

    def add_all(self, objects: Iterable[ApiObject]) -> None:
        """Add objects of any kinds, in any order.

        Nodes come first, and pods last in the order given. All others are taken by name, as the API
        server lists them: the order of nodes settles ties, the order of DeviceClasses which of them
        stands for an extended resource, and neither must depend on how somebody arranged a file.
        """
        found = list(objects)
        nodes = [obj for obj in found if isinstance(obj, Node)]
        others = [obj for obj in found if not isinstance(obj, Node | Pod)]
        for node in sorted(nodes, key=lambda node: node.name):
            self._add_node(node)
        for obj in sorted(others, key=lambda obj: (obj.namespace, obj.name)):
            self.state.listers.put(obj, kind_of(obj))
        for obj in found:
            if isinstance(obj, Pod):
                self._add_pod(obj)

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
        self._pods.put(pod)
        if pod.spec.node_name:
            self.state.add_pod(pod)
            return
        self.pending.append(pod)
        if pod.status.nominated_node_name and pod.spec.scheduler_name in self.profiles:
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
