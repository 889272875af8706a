"""All waiting pods of a world placed one after another, as a scheduler left alone would.

Owns the order of pods, what follows from a decision (a pod takes its place, victims leave theirs)
and the record of it. Pods that fit nowhere are tried again as long as others find a place, because
a live scheduler would be woken for them. Decides nothing itself: `engine.cycle` does.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum

import msgspec

from moorage.engine.decisions import Bind, Decision, Gated, Unschedulable
from moorage.errors import InputError, PluginError
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.framework.reserving import reserve, unreserve
from moorage.model.labels import compile_selector
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from moorage.simulator.world import World

FILES = "files"
"""Where explanations of this module come from."""


class PodOutcome(Enum):
    """What became of a pod."""

    PLACED = "Placed"
    PENDING = "Pending"
    EVICTED = "Evicted"
    GATED = "Gated"
    NOT_RESPONSIBLE = "NotResponsible"
    DELETING = "Deleting"
    ERROR = "Error"


class OfflineEviction(msgspec.Struct, frozen=True):
    """A pod that had to make room."""

    pod: str
    node: str
    by: str


class PodRecord(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod went, or why it went nowhere."""

    namespace: str
    name: str
    outcome: PodOutcome
    node: str | None = None
    message: str = ""
    priority: int = 0
    feasible_nodes: int = 0
    score: int | None = None
    """The total score of the node; None if there was nothing to compare it with."""
    victims: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Schedule(msgspec.Struct, frozen=True):
    """The records of all waiting pods in queue order, and who was evicted for them."""

    pods: tuple[PodRecord, ...]
    evictions: tuple[OfflineEviction, ...]


Observer = Callable[[Profile, Pod, bool], None]
"""Is called before a pod is tried; the flag: it is tried again, after pods were evicted for it."""


def place_all(world: World, observe: Observer | None = None) -> Schedule:
    """Place the waiting pods of a world; the world is changed accordingly."""
    return _Run(world, observe or (lambda *_: None)).all()


def place_and_explain(world: World, wanted: Pod) -> tuple[Schedule, tuple[PodExplanation, ...]]:
    """Place the waiting pods; explain one of them in the cluster that it really meets.

    There are two explanations if the pod preempts others: before and after the eviction. Of a pod
    that is tried several times, the last time counts.
    """
    found: list[PodExplanation] = []
    size = len(world.state)

    def observe(profile: Profile, pod: Pod, after_eviction: bool) -> None:
        if pod.uid != wanted.uid:
            return
        if not after_eviction:
            found.clear()
        found.append(
            explain_pod(
                world.cycle, profile, pod, source=FILES, top=size, matrix=(0, size), fixes=False
            )
        )

    schedule = place_all(world, observe)
    if not found:  # nobody tried it: it is another scheduler's, or being deleted
        message = next(pod.message for pod in schedule.pods if pod.key == wanted.key)
        found.append(PodExplanation(wanted.key, False, size, 0, message, FILES, ()))
    return schedule, tuple(found)


class _Run:
    """One pass through the waiting pods, and further passes for those left over."""

    def __init__(self, world: World, observe: Observer) -> None:
        self._world = world
        self._observe = observe
        self._evictions: list[OfflineEviction] = []
        self._records: dict[str, PodRecord] = {}
        self._changes = 0
        self._failed_at: dict[str, int] = {}
        """Pod uid -> the count of changes at its last attempt: nothing new, nothing to try."""

    def all(self) -> Schedule:
        waiting = in_queue_order(self._world)
        while waiting:
            left = [pod for pod in waiting if self._keeps_waiting(pod)]
            if len(left) == len(waiting):
                break
            waiting = left
        return Schedule(tuple(self._records.values()), tuple(self._evictions))

    def _keeps_waiting(self, pod: Pod) -> bool:
        if self._failed_at.get(pod.uid) == self._changes:
            return True
        record = self._record(pod)
        self._records[pod.uid] = record
        self._failed_at[pod.uid] = self._changes
        return record.outcome is PodOutcome.PENDING

    def _record(self, pod: Pod) -> PodRecord:
        profile = self._world.profiles.get(pod.spec.scheduler_name)
        if profile is None:
            names = ", ".join(sorted(self._world.profiles))
            text = f"not responsible: schedulerName is {pod.spec.scheduler_name}, not {names}"
            return _record(pod, PodOutcome.NOT_RESPONSIBLE, message=text)
        if pod.terminating:
            return _record(
                pod, PodOutcome.DELETING, message=f"skip schedule deleting pod: {pod.key}"
            )
        try:
            return self._place(profile, pod)
        except PluginError as error:
            return _record(pod, PodOutcome.ERROR, message=str(error))

    def _place(self, profile: Profile, pod: Pod) -> PodRecord:
        victims: tuple[Pod, ...] = ()
        decision = self._decide(profile, pod)
        if isinstance(decision, Unschedulable) and decision.nominated_node:
            victims = decision.victims
            pod = self._make_room(pod, decision.nominated_node, victims)
            decision = self._decide(profile, pod, after_eviction=True)
        match decision:
            case Gated(status=status):
                return _record(pod, PodOutcome.GATED, message=status.message)
            case Bind():
                self._world.cycle.nominated.remove(pod)
                self._world.state.assume(pod, decision.node_name)
                try:
                    refusal = reserve(profile, pod, decision.node_name)
                except PluginError:
                    self._undo(profile, pod, decision.node_name)
                    raise
                if refusal is not None:
                    self._undo(profile, pod, decision.node_name)
                    return _record(pod, PodOutcome.PENDING, message=refusal.message)
                for plugin in profile.pre_bind:
                    plugin.pre_bind_offline(pod)
                self._changes += 1
                return _record(
                    pod,
                    PodOutcome.PLACED,
                    node=decision.node_name,
                    feasible_nodes=decision.feasible_nodes,
                    score=decision.total_score,
                    victims=_keys(victims),
                )
            case Unschedulable():
                if decision.nominated_node == "" and pod.status.nominated_node_name:
                    self._world.cycle.nominated.remove(pod)
                    self._changes += 1
                return _record(
                    pod, PodOutcome.PENDING, message=decision.message, victims=_keys(victims)
                )

    def _undo(self, profile: Profile, pod: Pod, node: str) -> None:
        try:
            unreserve(profile, pod, node)
        finally:
            self._world.state.forget(pod)

    def _decide(self, profile: Profile, pod: Pod, *, after_eviction: bool = False) -> Decision:
        self._observe(profile, pod, after_eviction)
        decision, _ = self._world.cycle.decide(profile, pod)
        return decision

    def _make_room(self, pod: Pod, node: str, victims: Sequence[Pod]) -> Pod:
        """Evict the victims; returns the pod with its nomination."""
        nominated = self._world.cycle.nominated
        self._changes += 1
        for victim in victims:
            self._world.state.remove_pod(victim)
            self._evictions.append(OfflineEviction(victim.key, node, pod.key))
            _use_budgets(self._world, victim)
            if victim.uid in self._records:  # it was placed in this very run
                text = f"evicted from {node} to make room for {pod.key}"
                self._records[victim.uid] = _record(victim, PodOutcome.EVICTED, message=text)
        # Upstream takes the nominations of less important pods back: they may not fit any more.
        for other in self._world.pending:
            if other.status.nominated_node_name == node and other.priority < pod.priority:
                nominated.remove(other)
        status = msgspec.structs.replace(pod.status, nominated_node_name=node)
        pod = msgspec.structs.replace(pod, status=status)
        nominated.add(pod, node)
        return pod


def in_queue_order(world: World) -> list[Pod]:
    """The waiting pods as the QueueSort plugin orders them; equals in the order they came.

    A pod without a creation time counts as created just now, after all that have one.
    """
    queue_sort = next(iter(world.profiles.values())).queue_sort  # all profiles have the same
    with guard(queue_sort, "QueueSort"):
        return sorted(world.pending, key=lambda pod: queue_sort.sort_key(pod, _created(pod)))


def _created(pod: Pod) -> float:
    text = pod.metadata.creation_timestamp
    if text is None:
        return math.inf
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(
            f'Pod {pod.key}: metadata.creationTimestamp: "{text}" is not a time such as '
            "2026-01-31T12:00:00Z"
        ) from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _use_budgets(world: World, victim: Pod) -> None:
    """What the disruption controller would do once a pod is gone: one disruption less is left."""
    budgets = world.state.listers.of(PodDisruptionBudget)
    for budget in budgets.in_namespace(victim.namespace):
        allowed = budget.status.disruptions_allowed
        if allowed > 0 and compile_selector(budget.spec.selector).matches(victim.labels):
            status = msgspec.structs.replace(budget.status, disruptions_allowed=allowed - 1)
            budgets.put(msgspec.structs.replace(budget, status=status))


def _record(pod: Pod, outcome: PodOutcome, **details: object) -> PodRecord:
    return PodRecord(pod.namespace, pod.name, outcome, priority=pod.priority, **details)  # type: ignore[arg-type]


def _keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    return tuple(pod.key for pod in pods)
