"""A moment of the past: the cluster and the plugins as they were just before a decision.

Owns the way from objects to a cluster state with profiles that can be asked. It is made in steps,
so that a scheduler at work can decide in between: a generator yields every few milliseconds and
returns what it made. A moment that was made for a neighbour is changed where objects differ.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import TypeVar

import numpy as np

from moorage.cluster.state import ClusterState
from moorage.config.feature_gates import FeatureGates
from moorage.engine.clock import VirtualClock
from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind, Unschedulable
from moorage.errors import ConfigError, StateError
from moorage.explain.trials import trial
from moorage.framework.guard import FAULTS
from moorage.framework.plugin import Handle
from moorage.framework.profile import Profile
from moorage.framework.reserving import assumed, reserve
from moorage.ledger.answers import RecordedPlugin, recorded_extenders
from moorage.ledger.entries import Assumed, RecordedDecision
from moorage.ledger.objects import Objects
from moorage.ledger.settings import profiles_of
from moorage.model.meta import ApiObject
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

T = TypeVar("T")
K = TypeVar("K")
Steps = Generator[None, None, T]
"""Work in steps of a few milliseconds, which returns a result."""

_STEP = 64
"""So many objects are taken in per step."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class Moment:
    """A cluster as it was, with everybody who can be asked about it."""

    def __init__(self, objects: Objects) -> None:
        """Empty; `ConfigError` if the profiles cannot be made in this version of Moorage."""
        if objects.settings is None:
            raise ConfigError("the record does not say which plugins decided")
        self.settings = objects.settings
        self.gates = FeatureGates(self.settings.gates, self.settings.version)
        self.state = ClusterState()
        self.handle = Handle(self.state.listers, self.gates)
        self.profiles: Mapping[str, Profile] = profiles_of(
            self.settings, in_tree_registry(), self.handle
        )
        self.objects = Objects()
        self.cycle = Cycle(self.state, VirtualClock(), reuse=False)

    # Asking

    def profile_of(self, decision: RecordedDecision) -> Profile:
        """The profile that a decision was made with."""
        name = decision.summary.profile
        profile = self.profiles.get(name)
        if profile is None:
            raise ConfigError(f"there was no profile {name}")
        return profile

    def ask(self, decision: RecordedDecision) -> Bind | Unschedulable | None:
        """What is decided here about the pod of a decision; None if the pod is not known."""
        pod = self.objects.pod_of(decision)
        if pod is None:
            return None
        beside = trial(self.cycle, self.profile_of(decision).without_post_filter())
        return beside.cycle.attempt(beside.profile, pod)[0]

    @property
    def waiting(self) -> list[Pod]:
        """The pods without a node."""
        return [
            pod
            for pod in self.objects.pods.values()
            if not pod.spec.node_name and pod.uid not in self.objects.assumed
        ]

    # Making

    def fits(self, objects: Objects) -> bool:
        """Can this moment be changed into another one?

        Not where something is kept outside of the cluster state, or the order of nodes differs.
        """
        mine = self.objects
        return (
            objects.settings == self.settings
            and objects.order.names() == mine.order.names()
            and not any(map(_has_reservations, (*mine.assumed.values(), *objects.assumed.values())))
            and not self.gates.enabled("GenericWorkload")
        )

    def become(self, objects: Objects, decision: RecordedDecision | None) -> Steps[None]:
        """Change into the moment of some objects, before a decision if there is one."""
        before, self.objects = self.objects, objects
        for number, _ in enumerate(self._follow(before, objects)):
            if number % _STEP == _STEP - 1:
                yield
        self.cycle = self._cycle(objects, decision)
        if self.gates.enabled("GenericWorkload"):
            self._group()
        for one in objects.assumed.values():
            if _has_reservations(one):
                self._reserve(one)
                yield

    def _follow(self, before: Objects, after: Objects) -> Iterator[None]:
        """Change the state where objects differ; yields after each change."""
        state = self.state
        for name in after.order.names():
            node = after.nodes[name]
            if before.nodes.get(name) is not node:
                state.add_node(node)
                yield
        for kind in {**before.others, **after.others}:
            yield from self._list(before.others.get(kind, {}), after.others.get(kind, {}))
        yield from self._list(before.pods, after.pods, ordered=False)
        was, is_now = _placed(before), _placed(after)
        for uid, placed in was.items():
            if is_now.get(uid) != placed:
                state.remove_pod(placed[0])
                yield
        for uid, placed in is_now.items():
            if was.get(uid) != placed:
                pod, node_name = placed
                if pod.spec.node_name:
                    state.add_pod(pod)
                else:
                    state.assume(pod, node_name)
                yield

    def _list(
        self, before: Mapping[K, ApiObject], after: Mapping[K, ApiObject], *, ordered: bool = True
    ) -> Iterator[None]:
        """Have listers hold other objects; `ordered`: some are taken in the order they came."""
        listers = self.state.listers
        anew = ordered and list(before) != list(after)
        for key, obj in before.items():
            if anew or key not in after:
                listers.of(type(obj)).remove(obj)
                yield
        for key, obj in after.items():
            if anew or before.get(key) is not obj:
                listers.of(type(obj)).put(obj)
                yield

    def _cycle(self, objects: Objects, decision: RecordedDecision | None) -> Cycle:
        uid, answers = ("", ()) if decision is None else (decision.summary.uid, decision.answers)
        names = objects.order.names()
        order = self.state.order.rows(self.state.nodes.row_of)
        given = {answer.name: answer for answer in answers}
        for profile in self.profiles.values():
            for plugin in profile.plugins.values():
                if isinstance(plugin, RecordedPlugin):
                    plugin.recall(uid, given.get(plugin.name), order)
        extenders = tuple(recorded_extenders(self.settings.extenders, uid, answers, names))
        clock = VirtualClock(0.0 if decision is None else decision.summary.time)
        cycle = Cycle(self.state, clock, reuse=False, extenders=extenders)
        cycle.search.start = 0 if decision is None else decision.search_start
        for uid, node in objects.nominations.pods:
            pod = objects.pods.get(uid)
            if pod is not None:
                cycle.nominated.add(pod, node)
        return cycle

    def _group(self) -> None:
        """Count the pods of groups, as the event handlers do."""
        groups = self.handle.groups
        for pod in self.objects.pods.values():
            if pod.spec.node_name or pod.spec.scheduler_name in self.profiles:
                groups.put(pod)
        for one in self.objects.assumed.values():
            groups.assume(one.pod, one.node)

    def _reserve(self, one: Assumed) -> None:
        """Have Reserve plugins take what a pod was given that is on its way to its node."""
        profile, row = self.profiles.get(one.profile), self.state.nodes.row_of.get(one.node)
        if profile is None or row is None or self.state.node_of(one.pod) is None:
            return
        here = np.zeros(len(self.state), np.bool_)
        here[row] = True
        self.state.forget(one.pod)
        try:
            self.cycle.attempt(profile.without_post_filter(), one.pod, here)
            self.state.assume(assumed(profile, one.pod, one.node), one.node)
            reserve(profile, one.pod, one.node)
        except FAULTS:
            # Whatever is wrong with this pod is no reason not to explain another one.
            if self.state.node_of(one.pod) is None:
                self.state.assume(one.pod, one.node)


def _has_reservations(one: Assumed) -> bool:
    """Do Reserve plugins keep something about a pod on its way to a node?"""
    return one.pod.uses_storage or bool(one.pod.spec.resource_claims)


def _placed(objects: Objects) -> dict[str, tuple[Pod, str]]:
    """The pods that count on nodes, by uid."""
    found = {
        pod.uid: (pod, pod.spec.node_name) for pod in objects.pods.values() if pod.spec.node_name
    }
    for uid, one in objects.assumed.items():
        found.setdefault(uid, (one.pod, one.node))
    return found


def moment_of(
    objects: Objects, decision: RecordedDecision | None, near: Moment | None
) -> Steps[Moment]:
    """The moment of some objects, made out of a near one if that can be."""
    moment = near if near is not None and near.fits(objects) else Moment(objects)
    try:
        yield from moment.become(objects, decision)
    except StateError as error:
        raise ValueError(f"objects that contradict each other: {error}") from error
    return moment
