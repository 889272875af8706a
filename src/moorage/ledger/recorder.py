"""What the engine tells, as entries of a ledger.

While pods are decided this only hands on references to values that nobody changes. What becomes of
the entries is the ledger's business.
"""

from collections.abc import Callable, Mapping, Sequence

from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Refusal
from moorage.engine.recording import DecisionRecorder, EndedAttempt
from moorage.explain.report import DecisionSummary
from moorage.framework.extenders import Extender
from moorage.framework.profile import Profile
from moorage.ledger.answers import answers_of
from moorage.ledger.entries import (
    Asked,
    Change,
    Deleted,
    Entry,
    Forgotten,
    Nominations,
    RecordedAnswer,
    RecordedDecision,
    Refused,
    SchedulerSettings,
)
from moorage.ledger.objects import nominations_of, snapshot
from moorage.ledger.settings import answering_plugins, settings_of
from moorage.model.decode import KINDS
from moorage.model.meta import ApiObject
from moorage.model.node import Node
from moorage.model.pod import Pod
from moorage.plugins.defaults import in_tree_registry

_RECORDED = frozenset(kind.struct for kind in KINDS.values())


class Recorder(DecisionRecorder):
    """Hands every change and attempt to `note`; `rest` is called when there is time to spare."""

    def __init__(self, note: Callable[[Entry], None], rest: Callable[[], float | None]) -> None:
        super().__init__()
        self.cycle: Cycle | None = None
        self.next_number = 1
        """Of the next decision."""
        self._note = note
        self._rest = rest
        self._settings: SchedulerSettings | None = None
        self._foreign: Mapping[str, tuple[str, ...]] = {}
        self._nominations = Nominations()

    def follow(self, cycle: Cycle, profiles: Mapping[str, Profile]) -> None:
        """Begin with what a cycle knows."""
        self.cycle, self.clock = cycle, cycle.clock.now
        self._pods = cycle.state.listers.of(Pod)
        self._configure(profiles, cycle.extenders)
        for change in self.snapshot():
            self._note(change)

    def snapshot(self) -> list[Change]:
        """The changes that make all objects as they are after what was noted last."""
        assert self.cycle is not None, "nothing is noted before somebody is followed"
        assert self._settings is not None, "whoever is followed has profiles"
        return snapshot(self.cycle, self._settings)

    def configured(self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]) -> None:
        self._note(self._configure(profiles, extenders))

    def _configure(
        self, profiles: Mapping[str, Profile], extenders: Sequence[Extender]
    ) -> SchedulerSettings:
        self._settings = settings_of(profiles, extenders, in_tree_registry())
        self._foreign = {one.name: answering_plugins(one) for one in self._settings.profiles}
        return self._settings

    def changed(self, obj: ApiObject, old: ApiObject | None = None) -> None:
        if type(obj) in _RECORDED and not (isinstance(obj, Node) and _says_the_same(obj, old)):
            self._note(obj)

    def deleted(self, obj: ApiObject) -> None:
        if type(obj) in _RECORDED:
            meta = obj.metadata
            self._note(Deleted(type(obj).__name__, meta.namespace, meta.name, meta.uid))

    def forgotten(self, pod: Pod) -> None:
        self._note(Forgotten(pod.uid))

    def attempt_ended(self, ended: EndedAttempt) -> None:
        cycle, pod = self.cycle, ended.pod
        assert cycle is not None, "nothing is noted before somebody is followed"
        if cycle.nominated or self._nominations.pods:
            before, self._nominations = self._nominations, nominations_of(cycle)
            if self._nominations != before:
                self._note(self._nominations)
        if self._pods.get(pod.name, pod.namespace) is not pod:
            self._note(Asked(pod))
        now, placed, failure = self.clock(), ended.placed, ended.failure
        summary = DecisionSummary(
            number=self.next_number,
            time=now,
            pod=pod.key,
            result=ended.result,
            profile=ended.profile.name,
            node=ended.node_name if failure is None else "",
            nodes=len(cycle.state),
            feasible=0 if placed is None else placed.feasible_nodes,
            score=None if placed is None else placed.total_score,
            attempts=ended.attempts,
            seconds=now - ended.started if ended.started else 0.0,
            message="" if failure is None else failure.message,
            uid=pod.uid,
            nominated_node="" if failure is None else failure.nominated_node or "",
        )
        self.next_number += 1
        refusal = None if failure is None else failure.refusal
        self._note(
            RecordedDecision(
                summary,
                ended.node_name,
                () if failure is None else tuple(victim.key for victim in failure.victims),
                None if refusal is None else _refused(refusal),
                ended.search_start,
                ended.binding,
                self._answers(cycle, ended),
            )
        )

    def rest(self) -> float | None:
        return self._rest()

    def _answers(self, cycle: Cycle, ended: EndedAttempt) -> tuple[RecordedAnswer, ...]:
        attempt, foreign = ended.attempt, self._foreign.get(ended.profile.name, ())
        if attempt is None or not (foreign or attempt.extenders):
            return ()
        order = cycle.state.order.rows(cycle.state.nodes.row_of)
        return answers_of(attempt, foreign, order, ended.node_name)


def _refused(refusal: Refusal) -> Refused:
    status = refusal.status
    return Refused(refusal.point, status.plugin, status.code.value, status.reasons)


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
