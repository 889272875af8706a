"""What is noted during a simulation: when something became of each pod and node.

This is all that measuring costs while the run goes on. Decides nothing, and works nothing out.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec

from moorage.controllers.objects import (
    Json,
    controller_of,
    is_finished,
    is_going,
    labels,
    meta,
    phase,
    spec,
)
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.model.resources import PODS, Resources
from moorage.scenarios.json_api import JsonApi

_ZONE = "topology.kubernetes.io/zone"


class PodLife(msgspec.Struct):
    """When something became of a pod, in seconds since the beginning."""

    key: str
    priority_class: str
    labels: Mapping[str, str]
    controller: str
    """The uid of the controller that made it."""
    requests: Resources
    created: float
    bound: float | None = None
    node: str = ""
    running: float | None = None
    finished: float | None = None
    leaving: float | None = None
    """It was told to go."""
    gone: float | None = None
    preempted: bool = False

    @property
    def namespace(self) -> str:
        """The part of the key before the name."""
        return self.key.partition("/")[0]

    @property
    def ended(self) -> float | None:
        """When it took no room any more."""
        return self.gone if self.finished is None else self.finished

    @property
    def lost(self) -> bool:
        """Did it have a node, and go before it had finished?"""
        return self.bound is not None and self.gone is not None and self.finished is None


class CapacityChange(NamedTuple):
    """A node has more or less to give from now on."""

    at: float
    node: str
    more: Resources


class LivedIn(Protocol):
    """The simulation that is followed."""

    api: JsonApi
    preempted: list[str]

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""

    def find(self, kind: type[ApiObject], name: str, namespace: str) -> ApiObject | None:
        """An object as the scheduler has it."""


class Lives:
    """Follows a simulation."""

    def __init__(self, run: LivedIn) -> None:
        self._run = run
        self._pods: dict[str, PodLife] = {}
        self._preempted = 0
        self._allocatable: dict[str, Resources] = {}
        self.capacity: list[CapacityChange] = []
        self.zones: dict[str, str] = {}
        """Of every node that ever was."""
        run.api.followers.append(self._changed)

    @property
    def pods(self) -> Sequence[PodLife]:
        """All pods, in the order in which they came."""
        return list(self._pods.values())

    def _changed(self, before: Json | None, after: Json | None) -> None:
        obj = after or before or {}
        if obj["kind"] == "Pod":
            self._pod_changed(obj, after)
        elif obj["kind"] == "Node":
            self._node_changed(obj, after)

    def _pod_changed(self, obj: Json, after: Json | None) -> None:
        now = self._run.elapsed
        life = self._pods.get(meta(obj)["uid"])
        if life is None:
            life = self._pods[meta(obj)["uid"]] = self._born(obj, now)
        if life.leaving is None and (after is None or is_going(after)):
            life.leaving = now
            life.preempted = life.key in self._run.preempted[self._preempted :]
            self._preempted = len(self._run.preempted)
        if after is None:
            life.gone = now
            return
        if life.bound is None and spec(after).get("nodeName"):
            life.bound, life.node = now, spec(after)["nodeName"]
        if life.running is None and phase(after) == "Running":
            life.running = now
        if life.finished is None and is_finished(after):
            life.finished = now

    def _born(self, obj: Json, now: float) -> PodLife:
        metadata = meta(obj)
        pod = self._run.find(Pod, metadata["name"], metadata["namespace"])
        requests = pod.requests.occupied if isinstance(pod, Pod) else {}
        owner = controller_of(obj)
        return PodLife(
            key=f"{metadata['namespace']}/{metadata['name']}",
            priority_class=spec(obj).get("priorityClassName") or "",
            labels=labels(obj),
            controller=owner["uid"] if owner else "",
            requests={**requests, PODS: 1},
            created=now,
        )

    def _node_changed(self, obj: Json, after: Json | None) -> None:
        name = meta(obj)["name"]
        node = None if after is None else self._run.find(Node, name, "")
        new = node.allocatable if isinstance(node, Node) else {}
        old = self._allocatable.get(name, {})
        if isinstance(node, Node):
            self.zones[name] = node.labels.get(_ZONE, "")
        if new != old:
            self._allocatable[name] = new
            more = {one: new.get(one, 0) - old.get(one, 0) for one in {**old, **new}}
            self.capacity.append(CapacityChange(self._run.elapsed, name, more))
