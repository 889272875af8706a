"""The objects of a cluster at one place of the stream, as the engine had them there.

Owns what a change does to them. Nothing is computed from the objects here: see `moment`.
"""

from moorage.cluster.topology import NodeOrder
from moorage.engine.cycle import Cycle
from moorage.ledger.entries import (
    Asked,
    Assumed,
    Change,
    ChunkPlace,
    Deleted,
    Entry,
    Forgotten,
    Nominations,
    RecordedDecision,
    SchedulerSettings,
)
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod

Key = tuple[str, str]
"""Namespace and name."""


class Objects:
    """All objects, the pods that count on nodes without confirmation, and what decides."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.order = NodeOrder()
        self.pods: dict[str, Pod] = {}
        """By uid: they are many, and these are strings that are there anyway."""
        self.others: dict[str, dict[Key, ApiObject]] = {}
        self.assumed: dict[str, Assumed] = {}
        self.nominations = Nominations()
        self.settings: SchedulerSettings | None = None
        self.asked: Pod | None = None

    def copy(self) -> "Objects":
        """The same objects, to be changed by themselves."""
        other = Objects()
        other.nodes, other.order = dict(self.nodes), self.order.copy()
        other.pods = dict(self.pods)
        other.others = {kind: dict(objects) for kind, objects in self.others.items()}
        other.assumed = dict(self.assumed)
        other.nominations, other.settings = self.nominations, self.settings
        other.asked = self.asked
        return other

    def changes(self) -> list[Change]:
        """The changes that make these objects out of nothing."""
        changes: list[Change] = [] if self.settings is None else [self.settings]
        changes += map(self.nodes.__getitem__, self.order.names())
        for objects in self.others.values():
            changes += objects.values()
        changes += self.pods.values()
        changes += self.assumed.values()
        changes += [] if self.asked is None else [Asked(self.asked)]
        return [*changes, self.nominations]

    def follow(self, entry: Entry) -> None:
        """Follow a change, or a decision: a pod that is sent to a node counts there."""
        match entry:
            case ApiObject():
                self._put(entry)
            case Deleted():
                self._delete(entry)
            case Assumed():
                self.assumed[entry.pod.uid] = entry
            case Forgotten():
                self.assumed.pop(entry.uid, None)
            case Asked():
                self.asked = entry.pod
            case Nominations():
                self.nominations = entry
            case SchedulerSettings():
                self.settings = entry
            case RecordedDecision():
                pod = self.pod_of(entry)
                if entry.scheduled and pod is not None:
                    self.assumed[pod.uid] = Assumed(pod, entry.node, entry.summary.profile)
                self.asked = None

    def _put(self, obj: ApiObject) -> None:
        if isinstance(obj, Pod):
            self.pods[obj.uid] = obj
            if obj.spec.node_name:
                self.assumed.pop(obj.uid, None)
        elif isinstance(obj, Node):
            self.nodes[obj.name] = obj
            self.order.add(obj)
        else:
            kind = self.others.setdefault(type(obj).__name__, {})
            kind[obj.namespace, obj.name] = obj

    def follow_chunk(self, chunk: ChunkPlace, until: int | None = None) -> None:
        """Follow a chunk, to just before a decision or to the end."""
        for entry in chunk.entries:
            if isinstance(entry, RecordedDecision) and entry.summary.number == until:
                return
            self.follow(entry)

    def pod_of(self, decision: RecordedDecision) -> Pod | None:
        """The pod that a decision was about, as it was looked at."""
        uid = decision.summary.uid
        return self.asked if self.asked and self.asked.uid == uid else self.pods.get(uid)

    def _delete(self, gone: Deleted) -> None:
        key = gone.namespace, gone.name
        if gone.kind == Pod.__name__:
            pod = self.pods.pop(gone.uid, None)
            if pod is not None and pod.spec.node_name:
                self.assumed.pop(gone.uid, None)
        elif gone.kind == Node.__name__:
            self.nodes.pop(gone.name, None)
            self.order.remove(gone.name)
        else:
            self.others.get(gone.kind, {}).pop(key, None)


def snapshot(cycle: Cycle, settings: SchedulerSettings) -> list[Change]:
    """The changes that make the objects that a cycle decides by now; to be called between attempts.

    Quick, as a scheduler waits for it: nothing but references is copied.
    """
    state = cycle.state
    nodes = state.nodes
    changes: list[Change] = [settings]
    changes += (nodes.nodes[nodes.row_of[name]] for name in state.order.names())
    changes += state.listers
    if not len(state.listers.of(Pod)):
        # Whoever filled the state by hand need not have listed the pods.
        changes += (pod for pod, _ in state.placed_pods() if not state.is_assumed(pod))
    changes += (Assumed(pod, node, pod.spec.scheduler_name) for pod, node in state.assumed_pods())
    return [*changes, nominations_of(cycle)]


def nominations_of(cycle: Cycle) -> Nominations:
    """The pods that wait for nodes to be freed."""
    return Nominations(tuple((pod.uid, node) for pod, node in cycle.nominated))
