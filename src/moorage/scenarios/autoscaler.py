"""Node groups that follow the load, by the rule of the Kubernetes cluster autoscaler, made simple.

Nodes are started for pods that the scheduler could not place, and given back when they are hardly
used and their pods fit elsewhere; the scheduler's own plugins say what fits. It looks at the
cluster every few seconds, unless nothing has changed.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from moorage.config import KubeSchedulerConfiguration
from moorage.controllers.objects import Json, annotations, controller_of, is_finished, meta
from moorage.framework.registry import Registry
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.scenarios.fitting import OtherCluster
from moorage.scenarios.node_groups import ScalingGroup, as_seen
from moorage.scenarios.simulation import Simulation

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
_RESOURCES = ("cpu", "memory")
_MOST_TRIES = 10
"""So often nodes are started for a pod; what keeps it waiting then is nothing that nodes cure."""


class ScalingRule(NamedTuple):
    """When nodes are given back; times in seconds."""

    every: float
    below: float
    """A share of a node's CPU and memory: it is hardly used if less of both is requested."""
    unneeded: float
    """How long a node must have been hardly used."""
    after_start: float
    """How long no node is given back after some were started."""


class Autoscaler:
    """Watches a simulation and changes the sizes of its groups."""

    def __init__(
        self,
        run: Simulation,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        groups: Sequence[ScalingGroup],
        rule: ScalingRule,
    ) -> None:
        self._run, self._config, self._registry = run, config, registry
        self._groups, self._rule = groups, rule
        self._next = math.inf
        self._unneeded: dict[str, float] = {}
        """Nodes that are hardly used, and since when."""
        self._leaving: dict[str, None] = {}
        """Nodes that are being emptied to be given back."""
        self._tries: Counter[str] = Counter()
        """How often nodes were started for a pod, by uid."""
        self._started = -math.inf
        run.api.followers.append(self._changed)

    # ---- when it looks ----

    def _changed(self, before: Json | None, after: Json | None) -> None:
        self._look_at(self._run.elapsed)

    def _look_at(self, at: float) -> None:
        """Look at the first full interval after a time."""
        at = (math.floor(at / self._rule.every) + 1) * self._rule.every
        if at < self._next:
            self._next = at
            self._run.plan(at, self._look)

    def _look(self) -> None:
        if self._run.elapsed < self._next:
            return  # another look was planned before this one, and has happened
        self._next = math.inf
        for group in self._groups:
            missing = group.limits.least - len(group.members()) - len(group.starting)
            self._start(group, max(missing, 0))
        self._grow()
        self._shrink()

    # ---- more nodes ----

    def _grow(self) -> None:
        """Start nodes of the group that is cheapest for each pod that it would take."""
        pods = self._unschedulable()
        if not pods or not any(group.room() > 0 for group in self._groups):
            return
        coming = [as_seen(node) for group in self._groups for node in group.starting.values()]
        left = self._without_place(pods, coming).left
        best: tuple[tuple[float, int], ScalingGroup, int] | None = None
        for group in self._groups if left else ():
            taken, count = self._would_take(group, left, coming)
            if taken:
                rank = (group.price * count / taken, -taken)
                if best is None or rank < best[0]:
                    best = (rank, group, count)
        if best is not None:
            self._start(best[1], best[2])
            self._tries.update(pod.uid for pod in left)

    def _unschedulable(self) -> list[Pod]:
        """Pods that the scheduler has tried in vain, but for those that wait for their victims."""
        return [
            pod
            for pod in self._run.pending
            if pod.key in self._run.messages
            and not pod.status.nominated_node_name
            and self._tries[pod.uid] < _MOST_TRIES
        ]

    def _without_place(self, pods: Sequence[Pod], coming: Sequence[Node]) -> OtherCluster:
        return OtherCluster(self._run, self._config, self._registry, pods=pods, more=coming)

    def _would_take(
        self, group: ScalingGroup, pods: Sequence[Pod], coming: Sequence[Node]
    ) -> tuple[int, int]:
        """How many of the pods find a place on new nodes of a group, and on how many nodes."""
        room = min(group.room(), len(pods))
        if room <= 0:
            return 0, 0
        trial = self._without_place(pods, coming)
        taken = 0
        for count, node in enumerate(group.next_nodes(room)):
            found = trial.add(node)
            if not found:
                return taken, count
            taken += found
            if not trial.left:
                return taken, count + 1
        return taken, room

    def _start(self, group: ScalingGroup, count: int) -> None:
        if count:
            group.start(count)
            self._started = self._run.elapsed

    # ---- fewer nodes ----

    def _shrink(self) -> None:
        for name in list(self._leaving):
            if not self._pods_to_move(name):
                del self._leaving[name]
                self._run.fail(name)
        self._watch_usage()
        now = self._run.elapsed
        for group in self._groups:
            surplus = len(group.members()) - group.limits.least
            surplus -= sum(meta(node)["name"] in self._leaving for node in group.members())
            for name in self._removable(group, now)[: max(surplus, 0)]:
                self._give_back(name)
        waits = [
            max(since + self._rule.unneeded, self._started + self._rule.after_start)
            for since in self._unneeded.values()
        ]
        due = [wait for wait in waits if wait > now]
        if due:
            # Just before: a look follows the time that is given.
            self._look_at(math.nextafter(min(due), 0))

    def _watch_usage(self) -> None:
        """Note which nodes are hardly used, and since when."""
        nodes = self._run.engine.state.nodes
        shares = [
            nodes.requested.values(name) / np.maximum(nodes.allocatable.values(name), 1)
            for name in _RESOURCES
        ]
        used = np.maximum(*shares)
        members = [meta(node)["name"] for group in self._groups for node in group.members()]
        found = {
            name: float(used[nodes.row_of[name]]) for name in members if name not in self._leaving
        }
        low = sorted((share, name) for name, share in found.items() if share < self._rule.below)
        now = self._run.elapsed
        self._unneeded = {name: self._unneeded.get(name, now) for _, name in low}

    def _removable(self, group: ScalingGroup, now: float) -> list[str]:
        """Nodes of a group whose time is over: the empty ones first, then the least used one."""
        if now < self._started + self._rule.after_start:
            return []
        members = {meta(node)["name"] for node in group.members()}
        ripe = [
            name
            for name, since in self._unneeded.items()
            if name in members and now >= since + self._rule.unneeded
        ]
        return sorted(ripe, key=lambda name: bool(self._pods_to_move(name)))

    def _give_back(self, name: str) -> None:
        """Remove a node if it is empty; or empty it, one at a time, if its pods fit elsewhere."""
        pods = self._pods_to_move(name)
        if pods and (self._leaving or not all(map(_can_move, pods))):
            return
        if pods and not self._fit_elsewhere(name, pods):
            return
        del self._unneeded[name]
        if pods:
            self._leaving[name] = None
            self._run.drain(name)
        else:
            self._run.fail(name)

    def _fit_elsewhere(self, name: str, pods: Sequence[Json]) -> bool:
        listed = self._run.handle.listers.of(Pod)
        keys = ((meta(pod)["name"], meta(pod)["namespace"]) for pod in pods)
        moved = [pod for key in keys if (pod := listed.get(*key)) is not None]
        without = (*self._leaving, name)
        return not OtherCluster(
            self._run, self._config, self._registry, pods=moved, without=without
        ).left

    def _pods_to_move(self, name: str) -> list[Json]:
        """The pods of a node that are not of a DaemonSet and have not ended."""
        pods = self._run.api.cluster.on_node(name)
        return [pod for pod in pods if not _of_daemon_set(pod) and not is_finished(pod)]


def _of_daemon_set(pod: Json) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner["kind"] == "DaemonSet"


def _can_move(pod: Json) -> bool:
    """Would a controller replace the pod, and may it be evicted?"""
    return controller_of(pod) is not None and annotations(pod).get(SAFE_TO_EVICT) != "false"
