"""The ledger's ear in the engine: notes what happens, and has it packed later.

While pods are decided this only appends references to values that nobody changes. Packing takes
longer; it waits for a moment without work, or until too much waits.
"""

from collections.abc import Callable, Mapping, Sequence

from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Refusal
from moorage.engine.recording import DecisionRecorder, EndedAttempt
from moorage.framework.extenders import Extender
from moorage.framework.profile import Profile
from moorage.ledger.answers import answers_of
from moorage.ledger.entries import (
    Asked,
    Change,
    Deleted,
    Forgotten,
    RecordedAnswer,
    RecordedDecision,
    Refused,
    SchedulerSettings,
)
from moorage.ledger.objects import Objects, nominations_of, snapshot
from moorage.ledger.settings import answering_plugins, settings_of
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

_RECORDED = frozenset(kind.struct for kind in KINDS.values())


class Recorder(DecisionRecorder):
    """Notes changes and attempts in `waiting`.

    Before the first attempt there is nothing to explain, so changes go into `base` right away.
    """

    def __init__(
        self,
        base: Objects,
        decided: Callable[[RecordedDecision], None],
        full: Callable[[], None],
        rest: Callable[[], float | None],
        most_weight: int,
    ) -> None:
        super().__init__()
        self.base = base
        self.waiting: list[Change | RecordedDecision] = []
        self.weight = 0
        """How much waits."""
        self.decisions = 0
        """How many decisions wait."""
        self.cycle: Cycle | None = None
        self._decided = decided
        self._full = full
        self._rest = rest
        self._most_weight = most_weight
        self._absorbs = True
        self._settings: SchedulerSettings | None = None
        self._foreign: Mapping[str, tuple[str, ...]] = {}
        self._nominations = base.nominations

    def follow(self, cycle: Cycle, profiles: Mapping[str, Profile]) -> None:
        """Begin with what a cycle knows."""
        self.cycle, self.clock = cycle, cycle.clock.now
        self._pods = cycle.state.listers.of(Pod)
        self._configure(profiles, cycle.extenders)
        for change in self.snapshot():
            self._append(change)

    def snapshot(self) -> list[Change]:
        """The changes that make all objects as they are after what was noted last."""
        assert self.cycle is not None, "nothing is noted before somebody is followed"
        assert self._settings is not None, "whoever is followed has profiles"
        return snapshot(self.cycle, self._settings)

    def configured(self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]) -> None:
        """Other profiles decide from now on."""
        self._append(self._configure(profiles, extenders))

    def _configure(
        self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]
    ) -> SchedulerSettings:
        self._settings = settings_of(profiles, extenders, in_tree_registry())
        self._foreign = {one.name: answering_plugins(one) for one in self._settings.profiles}
        return self._settings

    def changed(self, obj: ApiObject, old: ApiObject | None = None) -> None:
        """An object appeared, or took the place of an `old` one."""
        if type(obj) in _RECORDED and not (isinstance(obj, Node) and _says_the_same(obj, old)):
            self._append(obj)

    def deleted(self, obj: ApiObject) -> None:
        """An object is gone."""
        if type(obj) in _RECORDED:
            meta = obj.metadata
            self._append(Deleted(type(obj).__name__, meta.namespace, meta.name, meta.uid))

    def forgotten(self, pod: Pod) -> None:
        """A pod that was sent to a node does not count there any more."""
        self._append(Forgotten(pod.uid))

    def attempt_ended(self, ended: EndedAttempt) -> None:
        """An attempt ended."""
        cycle, pod = self.cycle, ended.pod
        assert cycle is not None, "nothing is noted before somebody is followed"
        if cycle.nominated or self._nominations.pods:
            before, self._nominations = self._nominations, nominations_of(cycle)
            if self._nominations != before:
                self._append(self._nominations)
        self._absorbs = False
        meta = pod.metadata
        if self._pods.get(meta.name, meta.namespace) is not pod:
            self._append(Asked(pod))
        now, placed, failure = self.clock(), ended.placed, ended.failure
        refusal = None if failure is None else failure.refusal
        decision = RecordedDecision(
            now,
            now - ended.started if ended.started else 0.0,
            meta.namespace,
            meta.name,
            meta.uid,
            ended.profile.name,
            ended.result,
            ended.attempts,
            len(cycle.state),
            ended.node_name,
            0 if placed is None else placed.feasible_nodes,
            None if placed is None else placed.total_score,
            "" if failure is None else failure.message,
            "" if failure is None else failure.nominated_node or "",
            () if failure is None else tuple(victim.key for victim in failure.victims),
            None if refusal is None else _refused(refusal),
            ended.search_start,
            ended.binding,
            () if ended.attempt is None else self._answers(ended),
        )
        self.decisions += 1
        self._append(decision)
        self._decided(decision)

    def rest(self) -> float | None:
        """There is nothing to decide now."""
        return self._rest()

    def _answers(self, ended: EndedAttempt) -> tuple[RecordedAnswer, ...]:
        attempt, foreign = ended.attempt, self._foreign.get(ended.profile.name, ())
        if attempt is None or not (foreign or attempt.extenders) or self.cycle is None:
            return ()
        state = self.cycle.state
        order = state.order.rows(state.nodes.row_of)
        return answers_of(attempt, foreign, order, ended.node_name)

    def _append(self, entry: Change | RecordedDecision) -> None:
        if self._absorbs and not isinstance(entry, RecordedDecision):
            self.base.apply(entry)
            return
        self.waiting.append(entry)
        self.weight += _weight(entry)
        if self.weight > self._most_weight:
            self._full()

    def take(self, weight: int, most: int | None = None) -> list[Change | RecordedDecision]:
        """Take the oldest entries of about a weight away, and no more than `most` of them."""
        end, taken = 0, 0
        waiting = self.waiting
        limit = len(waiting) if most is None else min(most, len(waiting))
        while end < limit and taken < weight:
            entry = waiting[end]
            taken += _weight(entry)
            self.decisions -= isinstance(entry, RecordedDecision)
            end += 1
        found = waiting[:end]
        del waiting[:end]
        self.weight -= taken
        return found


def _refused(refusal: Refusal) -> Refused:
    status = refusal.status
    return Refused(refusal.point, status.plugin, status.code.value, status.reasons)


def _weight(entry: Change | RecordedDecision) -> int:
    """How much an entry counts for: 1 for a kilobyte or so."""
    if isinstance(entry, RecordedDecision):
        answers = sum(len(a.bits[1]) + len(a.raw[1]) + len(a.normalized[1]) for a in entry.answers)
        return 1 + (len(entry.message) + answers) // 500
    return 8 if isinstance(entry, Node) else 1


def _says_the_same(new: Node, old: ApiObject | None) -> bool:
    """Has nothing changed that a scheduler reads, as when a node reports that it is alive?"""
    if not isinstance(old, Node):
        return False
    return (
        new.spec == old.spec
        and new.status == old.status
        and new.metadata.labels == old.metadata.labels
        and new.metadata.annotations == old.metadata.annotations
        and new.metadata.uid == old.metadata.uid
        and new.metadata.deletion_timestamp == old.metadata.deletion_timestamp
    )
