"""States, profiles and cycles for tests, in one line each."""

from collections.abc import Iterable, Sequence
from typing import Any

from moorage.cluster.state import ClusterState
from moorage.config import DEFAULT_FEATURE_GATES, FeatureGates, load_profile
from moorage.config.args import ARGS_OF_PLUGIN
from moorage.config.defaulting import default_args
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.framework.plugin import Handle, Plugin
from moorage.framework.profile import Profile, build_profile
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry, with_devices

NOW = 1_800_000_000.0


def make_state(
    nodes: Iterable[Node] = (), pods: Iterable[Pod] = (), others: Iterable[ApiObject] = ()
) -> ClusterState:
    """A cluster with nodes, pods on them (by their `spec.nodeName`) and other objects."""
    state = ClusterState()
    for node in nodes:
        state.add_node(node)
    for pod in pods:
        state.add_pod(pod)
    for obj in others:
        state.listers.of(type(obj)).put(obj)
    return state


def make_cycle(state: ClusterState, *, reuse: bool = True) -> Cycle:
    """A cycle at a fixed time."""
    return Cycle(state, VirtualClock(NOW), reuse=reuse)


def make_profile(
    state: ClusterState,
    document: Json | None = None,
    extra: Sequence[type[Plugin]] = (),
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    percentage: int | None = None,
) -> Profile:
    """A profile over a state, with further plugins in the registry."""
    registry = in_tree_registry()
    for plugin in extra:
        registry.register(plugin)
    config = load_profile(document or {}, "test", gates)
    return build_profile(config, registry, with_devices(Handle(state.listers, gates)), percentage)


def only(*plugins: str) -> Json:
    """A profile with a queue, a binder and these plugins, in this order."""
    names = ["PrioritySort", "DefaultBinder", *plugins]
    return {
        "plugins": {
            "multiPoint": {"enabled": [{"name": n} for n in names], "disabled": [{"name": "*"}]}
        }
    }


def profile_of(state: ClusterState, *plugins: type[Plugin]) -> Profile:
    """A profile of nothing but these plugins."""
    return make_profile(state, only(*[plugin.name for plugin in plugins]), plugins)


def make_plugin(
    plugin: type[Plugin],
    state: ClusterState | None = None,
    args: Any = None,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> Any:
    """A plugin with its default arguments, or the given ones."""
    listers = (state or ClusterState()).listers
    if args is None and plugin.name in ARGS_OF_PLUGIN:
        args = default_args(plugin.name, gates)
    return plugin(args, with_devices(Handle(listers, gates)))
