"""All waiting pods of a world placed one after another, as a scheduler left alone would.

Owns the order of pods, what follows from a decision (a pod takes its place, victims leave theirs)
and the record of it. Pods that fit nowhere are tried again as long as others find a place, because
a live scheduler would be woken for them. Decides nothing itself: `engine.cycle` does.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec

from moorage.cluster.pod_groups import GroupKey
from moorage.engine.decisions import (
    Bind,
    Decision,
    Gated,
    Refusal,
    Unschedulable,
    refused_decision,
)
from moorage.engine.queue.entities import QueuedEntity, QueuedPodInfo
from moorage.engine.queue.entity_heap import EntityHeap
from moorage.errors import InputError, PluginError
from moorage.explain.pods import explain_pod
from moorage.explain.report import PodExplanation
from moorage.framework.guard import guard
from moorage.framework.profile import Profile
from moorage.framework.reserving import permit, reserve, unreserve
from moorage.framework.status import Status
from moorage.framework.waiting_pods import WaitingPod
from moorage.model.labels import compile_selector
from moorage.model.pod import Pod
from moorage.model.workloads import PodDisruptionBudget
from moorage.simulator.offline_binding import OfflineBinding
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


class _Held(msgspec.Struct):
    """A pod with a node, until it is bound or refused."""

    profile: Profile
    pod: Pod
    node: str
    placed: PodRecord
    outcomes: list[Status | None] = []


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
        self._held: dict[str, _Held] = {}
        """Pods that wait in Permit, by uid."""
        self._refused: set[str] = set()
        """Pods that Permit refused after they had waited; they would only wait again."""
        world.handle.members.activate = self._activate
        world.handle.members.activate_group = self._activate_group
        self._binding = OfflineBinding(world)

    def all(self) -> Schedule:
        waiting = in_queue_order(self._world)
        with closing(self._binding):
            while waiting:
                held = len(self._held)
                left = [pod for pod in waiting if self._keeps_waiting(pod)]
                if len(left) == len(waiting) and len(self._held) <= held and not self._expire():
                    break
                waiting = left
        return Schedule(tuple(self._records.values()), tuple(self._evictions))

    def _keeps_waiting(self, pod: Pod) -> bool:
        known = self._records.get(pod.uid)
        if known is not None and known.outcome is not PodOutcome.PENDING:
            return False  # it was let go on
        if pod.uid in self._held or pod.uid in self._refused:
            return True
        if self._failed_at.get(pod.uid) == self._seen_changes():
            return True
        record = self._record(pod)
        self._records[pod.uid] = record
        self._settle()
        self._binding.run_later()
        self._failed_at[pod.uid] = self._seen_changes()
        return self._records[pod.uid].outcome is PodOutcome.PENDING

    def _seen_changes(self) -> int:
        """Grows with everything that may help a pod, and with what plugins write."""
        return self._changes + self._world.state.listers.generation

    def _activate(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._failed_at.pop(pod.uid, None)

    def _activate_group(self, key: GroupKey) -> None:
        group = self._world.handle.groups.get(key)
        self._activate(group.unscheduled if group is not None else ())

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
                with self._undone_on_error(profile, pod, decision.node_name):
                    refusal = reserve(profile, pod, decision.node_name)
                if refusal is not None:
                    return self._refuse(profile, pod, decision.node_name, refusal)
                placed = _record(
                    pod,
                    PodOutcome.PLACED,
                    node=decision.node_name,
                    feasible_nodes=decision.feasible_nodes,
                    score=decision.total_score,
                    victims=_keys(victims),
                )
                return self._permit(_Held(profile, pod, decision.node_name, placed))
            case Unschedulable():
                self._world.handle.cycle_states.end(pod)
                if decision.nominated_node == "" and pod.status.nominated_node_name:
                    self._world.cycle.nominated.remove(pod)
                    self._changes += 1
                return _record(
                    pod, PodOutcome.PENDING, message=decision.message, victims=_keys(victims)
                )

    def _permit(self, held: "_Held") -> PodRecord:
        """Ask Permit, and bind the pod unless it is refused or has to wait."""
        with self._undone_on_error(held.profile, held.pod, held.node):
            now = self._world.cycle.clock.now()
            answer = permit(held.profile, held.pod, held.node, now)
        if isinstance(answer, WaitingPod):
            self._world.handle.waiting.add(answer)
            answer.when_settled(held.outcomes.append)
            self._held[held.pod.uid] = held
            return _record(held.pod, PodOutcome.PENDING, message=answer.message)
        return self._go_on(held, answer)

    def _go_on(self, held: "_Held", refusal: Status | None) -> PodRecord:
        """Bind a pod that nobody holds any more, or undo what was reserved for it."""
        profile, pod, node = held.profile, held.pod, held.node
        self._changes += 1
        if refusal is not None:
            return self._refuse(profile, pod, node, refusal)
        with self._undone_on_error(profile, pod, node):
            refusal = self._binding.bind(profile, pod, node)
        if refusal is not None:
            return self._refuse(profile, pod, node, refusal, waits=False)
        self._world.handle.cycle_states.end(pod)
        return held.placed

    def _refuse(
        self, profile: Profile, pod: Pod, node: str, status: Status, *, waits: bool = True
    ) -> PodRecord:
        """Undo what was reserved for a pod that a plugin refuses on its node."""
        self._undo(profile, pod, node)
        told = refused_decision(pod, Refusal(status, ""), waits=waits)
        outcome = PodOutcome.PENDING if told.code.rejected else PodOutcome.ERROR
        return _record(pod, outcome, message=told.message)

    def _settle(self) -> None:
        """Let pods go on, or back, that waited in Permit until another one came or gave up."""
        while settled := [held for held in self._held.values() if held.outcomes]:
            for held in settled:
                uid, outcome = held.pod.uid, held.outcomes[0]
                del self._held[uid]
                if outcome is not None:
                    self._refused.add(uid)
                try:
                    self._records[uid] = self._go_on(held, outcome)
                except PluginError as error:
                    self._records[uid] = _record(held.pod, PodOutcome.ERROR, message=str(error))

    def _expire(self) -> bool:
        """Nothing else can happen: the time of those that wait runs out, the first one first."""
        deadline = self._world.handle.waiting.next_deadline()
        if deadline is None:
            return False
        self._world.handle.waiting.expire(deadline)
        self._settle()
        return True

    @contextmanager
    def _undone_on_error(self, profile: Profile, pod: Pod, node: str) -> Iterator[None]:
        try:
            yield
        except PluginError:
            self._undo(profile, pod, node)
            raise

    def _undo(self, profile: Profile, pod: Pod, node: str) -> None:
        try:
            unreserve(profile, pod, node)
        finally:
            self._world.state.forget(pod)
            self._world.handle.cycle_states.end(pod)

    def _decide(self, profile: Profile, pod: Pod, *, after_eviction: bool = False) -> Decision:
        self._observe(profile, pod, after_eviction)
        decision, _ = self._world.cycle.decide(profile, pod)
        return decision

    def _make_room(self, pod: Pod, node: str, victims: Sequence[Pod]) -> Pod:
        """Evict the victims; returns the pod with its nomination."""
        nominated = self._world.cycle.nominated
        self._changes += 1
        for victim in victims:
            self._world.evicted(victim)
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

    def sort_key(entity: QueuedEntity) -> Any:
        with guard(queue_sort, "QueueSort"):
            return queue_sort.sort_key(entity.sorted_as, entity.timestamp)

    queue = EntityHeap(sort_key)
    for pod in world.pending:
        queue.put(QueuedPodInfo(timestamp=_created(pod), pod=pod))
    return [info.pod for entity in queue for info in entity.infos]


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
