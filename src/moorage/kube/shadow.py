"""Shadow mode: decide beside another scheduler, write nothing, and compare.

The scheduler decides as always, but `ShadowExecutor` notes a decision instead of carrying it out.
When the scheduler that really binds has decided, by a binding or by a `PodScheduled=False`
condition, both decisions are compared. A pod that was bound before we got to it is decided late, on
the cluster as it was known just before its binding arrived; `ShadowPodHandler` sees to that.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from moorage.cluster.listers import Lister
from moorage.engine.actions import Binding, Eviction, Failure
from moorage.engine.decisions import Bind
from moorage.engine.scheduler import Scheduler
from moorage.errors import ApiError, MoorageError, PluginError
from moorage.framework.binding import wait_on_permit
from moorage.framework.plugin import ApiPort, DeferringPlugin
from moorage.framework.reserving import unreserve
from moorage.framework.status import Code, Status
from moorage.kube.store import Handler
from moorage.kube.timing import Timer
from moorage.model.devices import ResourceClaim
from moorage.model.meta import ApiObject
from moorage.model.pod import ContainerExtendedResourceRequest, Pod

log = logging.getLogger(__name__)

_REMEMBERED = 100
_GIVEN_BACK = "the other scheduler did not bind the pod"
_NOBODY = ""  # no extension point ended the binding
SUMMARY_PERIOD = 30.0
PATIENCE = 30.0
"""How long a node's resources stay reserved for a pod that the other scheduler has not bound."""


class ShadowOutcome(StrEnum):
    """How two schedulers' decisions about a pod relate."""

    AGREE = "agree"
    """The same node."""
    TIE = "tie"
    """Different nodes that scored the same here, so that chance or order decides."""
    DISAGREE = "disagree"
    """Different nodes."""
    BOTH_UNSCHEDULABLE = "both_unschedulable"
    ONLY_OURS = "only_ours"
    """We would place the pod, the other found no node."""
    ONLY_THEIRS = "only_theirs"
    """The other placed the pod, we found no node."""


class ShadowComparison(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Two decisions about one pod; a node, or a sentence where there was none."""

    pod: str
    outcome: ShadowOutcome
    our_node: str = ""
    their_node: str = ""
    our_message: str = ""
    their_message: str = ""
    our_score: int | None = None
    """What our node scored here ..."""
    their_score: int | None = None
    """... and theirs; None where it would not have done."""
    late: bool = False
    """Did we decide only when the other had?"""


class _Ours(msgspec.Struct):
    """What we decided last about a pod that nobody has bound yet."""

    node_name: str = ""
    message: str = ""
    binding: Binding | None = None
    scores: Mapping[str, int] = {}
    compared: bool = False
    """Was it compared with a refusal? Then the same refusal again is not compared."""


class Shadow:
    """Our decisions, theirs, and how often they were the same."""

    def __init__(
        self, scheduler: Scheduler, on_comparison: Callable[[ShadowComparison], None] | None = None
    ):
        scheduler.keeps_scores = True
        self._scheduler = scheduler
        self._on_comparison = on_comparison
        self._ours: dict[str, _Ours] = {}
        self._scored: deque[str] = deque()
        self._reserved: deque[tuple[float, Binding]] = deque()
        self.counts: Counter[ShadowOutcome] = Counter()
        self.recent: deque[ShadowComparison] = deque(maxlen=_REMEMBERED)
        """The latest pods for which the decisions differed."""

    # What we decide

    def decided(self, binding: Binding) -> None:
        """We would bind a pod."""
        scores, binding.scores = binding.scores or {}, None
        self._ours[binding.pod.uid] = _Ours(binding.node_name, binding=binding, scores=scores)
        self._scored.append(binding.pod.uid)
        if len(self._scored) > _REMEMBERED and (old := self._ours.get(self._scored.popleft())):
            old.scores = {}  # they are as many as there are nodes
        self._reserved.append((self._scheduler.clock.now() + PATIENCE, binding))

    def refused(self, pod: Pod, message: str) -> None:
        """We found no node; found again, it is the same decision."""
        if message == _GIVEN_BACK:
            return  # given back, which is no decision about the pod
        known = self._ours.get(pod.uid)
        if known is None or known.node_name:
            self._ours[pod.uid] = known = _Ours()
        known.message = message
        if not known.compared and (theirs := _refusal(pod)) is not None:
            self._compare_refusals(pod, known, theirs)

    def expire(self) -> None:
        """Give places back that nobody took: the other scheduler may have refused the pod again."""
        now = self._scheduler.clock.now()
        while self._reserved and self._reserved[0][0] <= now:
            _, binding = self._reserved.popleft()
            ours = self._ours.get(binding.pod.uid)
            if ours is not None and ours.binding is binding:
                self._give_back(ours)

    # What they decide

    def before_update(self, old: Pod, new: Pod) -> None:
        """A pod changed, and the cluster state does not have the change yet."""
        if old.spec.node_name or old.spec.scheduler_name not in self._scheduler.profiles:
            return
        if new.spec.node_name:
            self._bound(old, new.spec.node_name)
            return
        theirs = _refusal(new)
        ours = self._ours.get(new.uid)
        if theirs is not None and ours is not None and theirs != _refusal(old):
            self._compare_refusals(new, ours, theirs)

    def gone(self, pod: Pod) -> None:
        """A pod was deleted."""
        ours = self._ours.pop(pod.uid, None)
        if ours is not None:
            self._undo(ours, pod)

    def _undo(self, ours: _Ours, pod: Pod) -> None:
        """What Reserve noted never reaches the API; what is true arrives by watch."""
        if ours.binding is not None:
            unreserve(ours.binding.profile, pod, ours.node_name)
        self._scheduler.handle.cycle_states.end(pod)

    def _bound(self, pod: Pod, node_name: str) -> None:
        ours = self._ours.pop(pod.uid, None)
        late = ours is None
        if ours is None:
            ours = self._decide_late(pod)
        self._undo(ours, pod)
        if not ours.node_name:
            outcome = ShadowOutcome.ONLY_THEIRS
        else:
            outcome = ShadowOutcome.AGREE if ours.node_name == node_name else ShadowOutcome.DISAGREE
        our_score = their_score = None
        if outcome is ShadowOutcome.DISAGREE and ours.scores:
            our_score, their_score = ours.scores.get(ours.node_name), ours.scores.get(node_name)
            if our_score == their_score:
                outcome = ShadowOutcome.TIE
        self._note(
            ShadowComparison(
                pod.key,
                outcome,
                ours.node_name,
                node_name,
                our_message=ours.message,
                our_score=our_score,
                their_score=their_score,
                late=late,
            )
        )

    def _decide_late(self, pod: Pod) -> _Ours:
        profile = self._scheduler.profiles[pod.spec.scheduler_name]
        try:
            decision, attempt = self._scheduler.cycle.attempt(profile, pod)
        except PluginError as error:
            return _Ours(message=str(error))
        if isinstance(decision, Bind):
            return _Ours(decision.node_name, scores={} if attempt is None else attempt.totals)
        return _Ours(message=decision.message)

    def _compare_refusals(self, pod: Pod, ours: _Ours, theirs: str) -> None:
        if ours.compared:
            return
        ours.compared = True
        outcome = ShadowOutcome.ONLY_OURS if ours.node_name else ShadowOutcome.BOTH_UNSCHEDULABLE
        self._note(
            ShadowComparison(
                pod.key, outcome, ours.node_name, our_message=ours.message, their_message=theirs
            )
        )

        self._give_back(ours)

    def _give_back(self, ours: _Ours) -> None:
        binding, ours.binding = ours.binding, None
        # What we think of the pod stays: it may yet be bound where we would have.
        if binding is not None and self._scheduler.state.is_assumed(binding.pod):
            status = Status(Code.ERROR, (_GIVEN_BACK,))
            self._scheduler.binding_failed(binding, status, _NOBODY)

    def _note(self, comparison: ShadowComparison) -> None:
        self.counts[comparison.outcome] += 1
        if comparison.outcome not in _AS_GOOD:
            self.recent.append(comparison)
            log.info("shadow: %s", describe(comparison))
        if self._on_comparison is not None:
            self._on_comparison(comparison)

    def report(self) -> bytes:
        """The counts and the latest differences, as JSON."""
        return msgspec.json.encode(
            {
                "decisions": self.counts.total(),
                "outcomes": {outcome.value: self.counts[outcome] for outcome in ShadowOutcome},
                "differences": list(self.recent),
            }
        )

    def summary(self) -> str:
        """The counts in one line."""
        total = self.counts.total()
        same = sum(self.counts[outcome] for outcome in _AS_GOOD)
        share = f"{100 * same / total:.1f} %" if total else "nothing to compare yet"
        parts = ", ".join(f"{outcome}: {self.counts[outcome]}" for outcome in ShadowOutcome)
        return f"agreement {share} of {total} decisions ({parts})"


async def tell_often(shadow: Shadow, timer: Timer) -> None:
    """Log how it stands, whenever more has been compared."""
    told = -1
    while True:
        if shadow.counts.total() != told:
            told = shadow.counts.total()
            log.info("shadow: %s", shadow.summary())
        await timer.sleep(SUMMARY_PERIOD)


_AS_GOOD = (ShadowOutcome.AGREE, ShadowOutcome.TIE, ShadowOutcome.BOTH_UNSCHEDULABLE)
_SENTENCES = {
    ShadowOutcome.AGREE: "pod {0.pod} went to {0.their_node}, as it would have here",
    ShadowOutcome.TIE: "pod {0.pod} went to {0.their_node}, here to {0.our_node}, which is as good",
    ShadowOutcome.DISAGREE: (
        "pod {0.pod} went to {0.their_node} (score {0.their_score}), "
        "here it would have gone to {0.our_node} (score {0.our_score})"
    ),
    ShadowOutcome.BOTH_UNSCHEDULABLE: "pod {0.pod} fits nowhere, here neither",
    ShadowOutcome.ONLY_OURS: (
        "pod {0.pod} found no node ({0.their_message}), here it would have gone to {0.our_node}"
    ),
    ShadowOutcome.ONLY_THEIRS: (
        "pod {0.pod} went to {0.their_node}, here it would have found no node ({0.our_message})"
    ),
}


def describe(comparison: ShadowComparison) -> str:
    """A comparison as a sentence."""
    return _SENTENCES[comparison.outcome].format(comparison)


def _refusal(pod: Pod) -> str | None:
    """What the other scheduler says is in the pod's way, if anything."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message if condition.reason == "Unschedulable" else None
    return None


class _Unwritten(ApiPort):
    """An API that takes everything and keeps nothing, for what plugins leave to be written."""

    def __init__(self, claims: Lister[ResourceClaim]) -> None:
        self._claims = claims

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Nothing."""

    async def get_claim(self, namespace: str, name: str) -> ResourceClaim:
        """The claim as last seen."""
        found = self._claims.get(name, namespace)
        if found is None:
            raise ApiError(404, "NotFound", f'resourceclaims "{name}" not found')
        return found

    async def update_claim_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Nothing."""
        return claim

    async def update_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Nothing."""
        return claim

    async def release_claim(self, claim: ResourceClaim, user_uid: str) -> None:
        """Nothing."""

    async def delete_claim(self, claim: ResourceClaim) -> None:
        """Nothing."""

    async def write_extended_claim(
        self, pod: Pod, claim_name: str, mappings: Sequence[ContainerExtendedResourceRequest]
    ) -> None:
        """Nothing."""


class ShadowExecutor:
    """Notes decisions instead of sending them to the API; same interface as `Executor`."""

    def __init__(
        self, scheduler: Scheduler, shadow: Shadow, between_attempts: Callable[[], Awaitable[None]]
    ) -> None:
        self._scheduler = scheduler
        self._shadow = shadow
        self._between_attempts = between_attempts
        self._api = _Unwritten(scheduler.state.listers.of(ResourceClaim))
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Is anything on its way?"""
        return bool(self._tasks)

    def carry_out(self) -> None:
        """Note everything in the scheduler's outbox."""
        self._shadow.expire()
        outbox = self._scheduler.outbox
        while outbox:
            match action := outbox.popleft():
                case Binding(waiting=None):
                    self._placed(action)
                case Binding():
                    self._spawn(self._after_permit(action))
                case Failure():
                    self._shadow.refused(action.pod, action.message)
                case Eviction():
                    # Nobody is evicted, so nobody need be waited for.
                    for victim in action.victims:
                        self._scheduler.handle.preempting.left(victim)
                    self._scheduler.preemption_done(action.cause)
        for plugin in self._scheduler.deferring.values():
            if plugin.has_work:
                self._spawn(self._flush(plugin))
        self._scheduler.handle.api.drop_later()  # it would write

    def cancel(self) -> None:
        """Give up on pods that wait."""
        for task in self._tasks:
            task.cancel()

    async def drain(self, seconds: float) -> None:
        """There is nothing to finish."""
        del seconds
        self.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _placed(self, binding: Binding) -> None:
        self._scheduler.permitted(binding)
        self._shadow.decided(binding)

    async def _after_permit(self, binding: Binding) -> None:
        assert binding.waiting is not None, "only pods that wait come here"
        status = await wait_on_permit(binding.waiting)
        if status is None:
            self._placed(binding)
        else:
            await self._between_attempts()
            self._scheduler.binding_failed(binding, status, "Permit")

    async def _flush(self, plugin: DeferringPlugin) -> None:
        await plugin.flush(self._api)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("writing a decision down failed", exc_info=error)


class ShadowPodHandler(Handler):
    """Shows pods to the shadow; to be called before the cluster state changes."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow

    def on_update(self, old: ApiObject, new: ApiObject, /) -> None:
        """A pod changed."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        assert isinstance(new, Pod), "the store of pods holds pods"
        try:
            self._shadow.before_update(old, new)
        except MoorageError as error:
            log.error("shadow: pod %s cannot be compared: %s", new.key, error)

    def on_delete(self, old: ApiObject, /) -> None:
        """A pod is gone."""
        assert isinstance(old, Pod), "the store of pods holds pods"
        self._shadow.gone(old)
