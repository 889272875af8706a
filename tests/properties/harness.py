"""One cluster twice: in columns and in dictionaries, changed by the same events."""

import os

import msgspec
from hypothesis import note, settings

from framework import asking
from framework.asking import Asked
from framework.building import make_cycle
from moorage.cluster.state import ClusterState
from moorage.engine.cycle import Cycle
from moorage.framework.profile import Profile
from moorage.model.meta import ApiObject, Json
from moorage.model.node import Node
from moorage.model.pod import Pod
from reference.cluster import NaiveCluster
from reference.scheduler import NaiveConfig

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def effort(examples: int, steps: int = 20) -> settings:
    """How many examples; a deep run tries thirty times as many."""
    return settings(max_examples=examples * (30 if DEEP else 1), stateful_step_count=steps)


class Noted:
    """An event as Hypothesis prints it in a failing example: what is not default, and no more."""

    def __init__(self, what: str, obj: ApiObject, where: str = "") -> None:
        self.what, self.obj, self.where = what, obj, where

    def __repr__(self) -> str:
        return f"{self.what} {_without_defaults(self.obj)} {self.where}"


def _without_defaults(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        return {
            info.name: _without_defaults(given)
            for info in msgspec.structs.fields(value)
            if (given := getattr(value, info.name)) != info.default
            and not (info.default is msgspec.NODEFAULT and not given)
        }
    if isinstance(value, tuple):
        return [_without_defaults(item) for item in value]
    return value


class Twin:
    """The product's state and the naive one, kept in step."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.naive = NaiveCluster()
        self.cycle = make_cycle(self.state)

    def put_node(self, node: Node) -> None:
        note(Noted("node", node))
        self.state.add_node(node)
        self.naive.put_node(node)

    def remove_node(self, name: str) -> None:
        self.state.remove_node(name)
        self.naive.remove_node(name)

    def assume(self, pod: Pod, node_name: str) -> None:
        note(Noted("assume", pod, f"on {node_name}"))
        self.state.assume(pod, node_name)
        self.naive.place(pod, node_name, assumed=True)

    def forget(self, uid: str) -> None:
        self.state.forget(self.naive.placed[uid][0])
        self.naive.displace(uid)

    def add_pod(self, pod: Pod) -> None:
        """The API shows a pod on its node, assumed before or not."""
        note(Noted("pod", pod))
        self.state.add_pod(pod)
        if pod.uid in self.naive.placed:
            self.naive.displace(pod.uid)
        self.naive.place(pod, pod.spec.node_name)

    def update_pod(self, pod: Pod) -> None:
        note(Noted("update", pod))
        self.state.update_pod(pod)
        self.naive.displace(pod.uid)
        self.naive.place(pod, pod.spec.node_name)

    def remove_pod(self, uid: str) -> None:
        self.state.remove_pod(self.naive.placed[uid][0])
        self.naive.displace(uid)

    def nominate(self, pod: Pod, node_name: str) -> None:
        note(Noted("nominate", pod, f"to {node_name}"))
        self.cycle.nominated.add(pod, node_name)
        # The last to be nominated is the last in line, also if it was nominated before.
        self.naive.nominated.pop(pod.uid, None)
        self.naive.nominated[pod.uid] = (pod, node_name)

    def put(self, obj: ApiObject) -> None:
        note(Noted(type(obj).__name__, obj))
        self.state.listers.of(type(obj)).put(obj)
        self.naive.put(obj)

    def drop(self, obj: ApiObject) -> None:
        self.state.listers.of(type(obj)).remove(obj)
        self.naive.drop(obj)


def rebuilt(naive: NaiveCluster) -> ClusterState:
    """A new state from the objects alone; rows, codes and history are other ones."""
    state = ClusterState()
    for name in sorted(naive.nodes):
        state.add_node(naive.nodes[name])
    for pod, node_name in naive.placed.values():
        state.assume(pod, node_name)
    for obj in naive.objects.values():
        state.listers.of(type(obj)).put(obj)
    return state


# Profiles


def profile_document(config: NaiveConfig) -> Json:
    """A profile's configuration as a file would have it."""
    strategy: Json = {
        "type": config.strategy,
        "resources": [{"name": name, "weight": weight} for name, weight in config.fit_resources],
    }
    if config.shape:
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": x, "score": y} for x, y in config.shape]
        }
    args: dict[str, Json] = {
        "NodeResourcesFit": {
            "scoringStrategy": strategy,
            "ignoredResources": list(config.ignored_resources),
            "ignoredResourceGroups": list(config.ignored_groups),
        },
        "NodeResourcesBalancedAllocation": {
            "resources": [{"name": name, "weight": 1} for name in config.balanced]
        },
        "InterPodAffinity": {
            "hardPodAffinityWeight": config.hard_weight,
            "ignorePreferredTermsOfExistingPods": config.ignore_others,
        },
    }
    if config.added_affinity is not None:
        args["NodeAffinity"] = {"addedAffinity": msgspec.to_builtins(config.added_affinity)}
    if config.spread_defaults is not None:
        args["PodTopologySpread"] = {
            "defaultingType": "List",
            "defaultConstraints": [
                {
                    "maxSkew": constraint.max_skew,
                    "topologyKey": constraint.topology_key,
                    "whenUnsatisfiable": constraint.when_unsatisfiable,
                }
                for constraint in config.spread_defaults
            ],
        }
    return {"pluginConfig": [{"name": name, "args": value} for name, value in args.items()]}


def ask(cycle: Cycle, profile: Profile, pod: Pod) -> Asked:
    """Everything about a pod; a failing example shows the pod."""
    note(Noted("ask about", pod))
    return asking.ask(cycle, profile, pod)


def fresh_cycle(state: ClusterState, like: Cycle) -> Cycle:
    """A cycle that keeps no answers and knows of the same nominations."""
    cycle = make_cycle(state, reuse=False)
    cycle.nominated = like.nominated
    return cycle
