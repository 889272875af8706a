"""Hostile but decodable objects in the cluster state, the cycle, preemption and device allocation.

An ordinary pod beside them must find its node, and nothing of them may stay when they are gone.
"""

import json
from random import Random
from typing import Any

import msgspec

from fuzz.corpus import Json, golden_cases
from fuzz.mutations import encode, mutate_json
from fuzz.target import PropertyError, Target
from fuzz.typed import typed_objects
from moorage.config import default_config
from moorage.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from moorage.engine.actions import Binding, Eviction
from moorage.engine.clock import VirtualClock
from moorage.engine.scheduler import Scheduler
from moorage.kube.decoding import Malformed, ObjectReader
from moorage.kube.live import build_scheduler, event_handler, watched_kinds
from moorage.kube.resources import RESOURCES
from moorage.kube.store import Store
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

GOOD_NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "good-node", "uid": "good-node", "labels": {"good": "yes"}},
    "spec": {"taints": [{"key": "good", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"cpu": "9000", "memory": "9000Gi", "pods": "9000"}},
}
_INPUTS_PER_CLUSTER = 50
_GATES = ("", "GenericWorkload=true")


def good_pod(name: str) -> Json:
    """A pod that only the good node suits."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "good", "uid": name, "resourceVersion": "1"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            "nodeSelector": {"good": "yes"},
            "tolerations": [{"key": "good", "operator": "Exists"}],
            "priority": 1000,
        },
    }


def mutated_objects(case: Json, random: Random, donors: list[Json]) -> list[Any]:
    """The objects of a golden case and its pod, one to four of them changed."""
    objects = [*case["objects"][:12], case["pod"]]
    for _ in range(random.choice((1, 1, 2, 4))):
        at = random.randrange(len(objects))
        if isinstance(objects[at], dict):
            kind = objects[at].get("kind")
            objects[at] = mutate_json(objects[at], random, donors)
            if isinstance(objects[at], dict) and kind:
                objects[at]["kind"] = kind
    return objects


class Cluster:
    """A scheduler with a virtual clock, fed by stores as the live one is."""

    def __init__(self, gates: str) -> None:
        features = FeatureGates.parse(gates) if gates else DEFAULT_FEATURE_GATES
        self.clock = VirtualClock(1e9)
        self.scheduler: Scheduler = build_scheduler(
            default_config(features), in_tree_registry(), features, self.clock
        )
        self.stores: dict[str, Store] = {}
        self._readers: dict[str, ObjectReader] = {}
        groups = self.scheduler.groups.enabled
        for kind in watched_kinds(self.scheduler.profiles, groups=groups):
            handlers = self.scheduler.handlers
            self.stores[kind] = Store([event_handler(handlers, kind)])
            self._readers[kind] = ObjectReader(RESOURCES[kind])
        self.bound: dict[str, str] = {}
        self.inputs = self.serial = 0
        self.put(json.dumps(GOOD_NODE).encode())

    def put(self, data: bytes) -> None:
        """An object as the API server sends it."""
        kind = loaded_kind(data)
        if kind in self.stores:
            found = self._readers[kind].read(msgspec.Raw(data))
            if not isinstance(found, Malformed) and not (isinstance(found, Pod) and found.finished):
                self.stores[kind].put(found)

    def settle(self) -> None:
        """Decide about everything that waits, and carry it out."""
        for _ in range(3):
            steps = 0
            while self.scheduler.schedule_one() and steps < 100:
                steps += 1
            self._carry_out()
            self.clock.advance(15)
            self.scheduler.run_timers()

    def _carry_out(self) -> None:
        pods = self.stores["Pod"]
        while self.scheduler.outbox:
            action = self.scheduler.outbox.popleft()
            if isinstance(action, Binding):
                self.scheduler.permitted(action)
                self.scheduler.bound(action)
                self.bound[action.pod.key] = action.node_name
                if action.pod.key in pods.objects:
                    pods.put(_bound(action.pod, action.node_name))
            elif isinstance(action, Eviction):
                for victim in action.victims:
                    pods.remove(victim.key)
                self.scheduler.preemption_done(action.cause)

    def clear(self, keep: str) -> None:
        """Remove every object but one."""
        for store in reversed(self.stores.values()):
            for key in list(store.objects):
                if key != keep:
                    store.remove(key)


def loaded_kind(data: bytes) -> str:
    """The kind that an object says to be of."""
    try:
        return str(msgspec.json.decode(data, type=_Kind).kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


class _Kind(msgspec.Struct):
    kind: str = ""


def _bound(pod: Pod, node: str) -> ApiObject:
    version = f"{pod.metadata.resource_version}-bound"
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


class Engine(Target):
    """Everything between the stores and the decisions."""

    name = "engine"

    def __init__(self) -> None:
        self._cases: list[Json] = []
        self._donors: list[Json] = []
        self._typed: list[Json] = []
        self._clusters: dict[str, Cluster] = {}

    def prepare(self, random: Random) -> None:
        """Golden cases."""
        self._cases = golden_cases(random, 300)
        self._typed = typed_objects(random)
        self._donors = [obj for case in self._cases[:50] for obj in case["objects"][:5]]

    def make(self, random: Random) -> bytes:
        """Objects of one case."""
        objects = mutated_objects(random.choice(self._cases), random, self._donors)
        if random.random() < 0.3:
            objects += random.choices(self._typed, k=random.choice((1, 3, 6)))
            random.shuffle(objects)
        gates = random.choice(_GATES) if random.random() < 0.2 else ""
        return encode({"gates": gates, "objects": objects})

    def check(self, data: bytes) -> None:
        """The ordinary pod is placed, and the hostile ones leave nothing behind."""
        try:
            asked = msgspec.json.decode(data, type=_Input)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return
        if asked.gates not in _GATES:
            return
        cluster = self._clusters.pop(asked.gates, None) or Cluster(asked.gates)
        for raw in asked.objects:
            cluster.put(bytes(raw))
        cluster.settle()
        self._place(cluster)
        cluster.clear("good-node")
        state = cluster.scheduler.state
        if dict(state.sizes()) != {"nodes": 1, "pods": 0, "assumed_pods": 0}:
            raise PropertyError(f"left behind: {dict(state.sizes())}")
        row = state.nodes.row_of["good-node"]
        if any(amounts[row] for _, amounts in state.nodes.requested.items()):
            raise PropertyError("requests of pods that are gone are still counted")
        self._place(cluster)
        cluster.clear("good-node")
        cluster.inputs += 1
        if cluster.inputs < _INPUTS_PER_CLUSTER:
            self._clusters[asked.gates] = cluster

    def reset(self) -> None:
        """The next input gets a new cluster."""
        self._clusters.clear()

    def _place(self, cluster: Cluster) -> None:
        cluster.serial += 1
        name = f"good-{cluster.serial}"
        cluster.put(json.dumps(good_pod(name)).encode())
        cluster.settle()
        if cluster.bound.get(f"good/{name}") == "good-node":
            return
        others = [
            pod.key for pod, node in cluster.scheduler.state.placed_pods() if node == "good-node"
        ]
        if not others:  # a neighbour there may have reasons to keep it away
            raise PropertyError(f"the ordinary pod {name} was not placed")


class _Input(msgspec.Struct):
    objects: list[msgspec.Raw] = []
    gates: str = ""


TARGET = Engine
