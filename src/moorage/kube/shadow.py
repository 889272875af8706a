"""Deciding beside another scheduler without ever writing: what would Moorage have done?

Owns the comparison. In shadow the scheduler decides as always, but a decision is written down
instead of carried out. When the scheduler that really binds has spoken, by a binding or by a
`PodScheduled=False` condition, both are compared. A pod that was bound before we got to it is
decided late, on the cluster as it was known just before its binding arrived.

Nothing here talks to the API. `shadow_executor` has the hands and the ears.
"""

import logging
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum

import msgspec

from moorage.engine.decisions import Bind
from moorage.engine.scheduler import Binding, Scheduler
from moorage.errors import PluginError
from moorage.framework.reserving import unreserve
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod

log = logging.getLogger(__name__)

_REMEMBERED = 100
_GIVEN_BACK = "the other scheduler did not bind the pod"
PATIENCE = 30.0
"""How long a place is kept for a pod that the other scheduler has not bound."""


class Outcome(StrEnum):
    """How two schedulers' decisions about a pod relate."""

    AGREE = "agree"
    """The same node."""
    DISAGREE = "disagree"
    """Different nodes."""
    BOTH_UNSCHEDULABLE = "both_unschedulable"
    ONLY_OURS = "only_ours"
    """We would place the pod, the other found no node."""
    ONLY_THEIRS = "only_theirs"
    """The other placed the pod, we found no node."""


class Comparison(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Two decisions about one pod; a node, or a sentence where there was none."""

    pod: str
    outcome: Outcome
    our_node: str = ""
    their_node: str = ""
    our_message: str = ""
    their_message: str = ""
    late: bool = False
    """Did we decide only when the other had?"""


class _Ours(msgspec.Struct):
    """What we decided last about a pod that nobody has bound yet."""

    node_name: str = ""
    message: str = ""
    binding: Binding | None = None
    compared: bool = False
    """Was it compared with a refusal? Then the same refusal again is no news."""


class Shadow:
    """Our decisions, theirs, and how often they were the same."""

    def __init__(self, scheduler: Scheduler, tell: Callable[[Comparison], None] | None = None):
        self._scheduler = scheduler
        self._tell = tell
        self._ours: dict[str, _Ours] = {}
        self._kept: deque[tuple[float, Binding]] = deque()
        self.counts: Counter[Outcome] = Counter()
        self.recent: deque[Comparison] = deque(maxlen=_REMEMBERED)
        """The latest pods about which opinions differed."""

    # What we decide

    def decided(self, binding: Binding) -> None:
        """We would bind a pod."""
        self._ours[binding.pod.uid] = _Ours(binding.node_name, binding=binding)
        self._kept.append((self._scheduler.clock.now() + PATIENCE, binding))

    def refused(self, pod: Pod, message: str) -> None:
        """We found no node; said again, it is the same opinion."""
        if message == _GIVEN_BACK:
            return  # a place that nobody took is no opinion about the pod
        known = self._ours.get(pod.uid)
        if known is None or known.node_name:
            self._ours[pod.uid] = known = _Ours()
        known.message = message
        if not known.compared and (theirs := _refusal(pod)) is not None:
            self._compare_refusals(pod, known, theirs)

    def expire(self) -> None:
        """Give places back that nobody took: the other scheduler may have refused the pod again."""
        now = self._scheduler.clock.now()
        while self._kept and self._kept[0][0] <= now:
            _, binding = self._kept.popleft()
            ours = self._ours.get(binding.pod.uid)
            if ours is not None and ours.binding is binding:
                self._give_back(ours)

    # What they decide

    def before_update(self, old: Pod, new: Pod) -> None:
        """A pod changed, and our books do not know it yet."""
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
        if ours is not None and ours.binding is not None:
            unreserve(ours.binding.profile, pod, ours.node_name)

    def _bound(self, pod: Pod, node_name: str) -> None:
        ours = self._ours.pop(pod.uid, None)
        late = ours is None
        if ours is None:
            ours = self._decide_late(pod)
        if ours.binding is not None:
            # What Reserve noted down never reaches the API; the truth arrives by watch.
            unreserve(ours.binding.profile, pod, ours.node_name)
        if not ours.node_name:
            outcome = Outcome.ONLY_THEIRS
        else:
            outcome = Outcome.AGREE if ours.node_name == node_name else Outcome.DISAGREE
        self._note(
            Comparison(
                pod.key, outcome, ours.node_name, node_name, our_message=ours.message, late=late
            )
        )

    def _decide_late(self, pod: Pod) -> _Ours:
        profile = self._scheduler.profiles[pod.spec.scheduler_name]
        try:
            decision, _ = self._scheduler.cycle.attempt(profile, pod)
        except PluginError as error:
            return _Ours(message=str(error))
        if isinstance(decision, Bind):
            return _Ours(decision.node_name)
        return _Ours(message=decision.message)

    def _compare_refusals(self, pod: Pod, ours: _Ours, theirs: str) -> None:
        if ours.compared:
            return
        ours.compared = True
        outcome = Outcome.ONLY_OURS if ours.node_name else Outcome.BOTH_UNSCHEDULABLE
        self._note(
            Comparison(
                pod.key, outcome, ours.node_name, our_message=ours.message, their_message=theirs
            )
        )

        self._give_back(ours)

    def _give_back(self, ours: _Ours) -> None:
        binding, ours.binding = ours.binding, None
        # What we think of the pod stays: it may yet be bound where we would have.
        if binding is not None and self._scheduler.state.is_assumed(binding.pod):
            status = Status(Code.ERROR, (_GIVEN_BACK,))
            self._scheduler.binding_failed(binding, status)

    def _note(self, comparison: Comparison) -> None:
        self.counts[comparison.outcome] += 1
        if comparison.outcome not in (Outcome.AGREE, Outcome.BOTH_UNSCHEDULABLE):
            self.recent.append(comparison)
            log.info("shadow: %s", describe(comparison))
        if self._tell is not None:
            self._tell(comparison)

    def report(self) -> bytes:
        """The tally and the latest differences, as JSON."""
        return msgspec.json.encode(
            {
                "decisions": self.counts.total(),
                "outcomes": {outcome.value: self.counts[outcome] for outcome in Outcome},
                "differences": list(self.recent),
            }
        )

    def summary(self) -> str:
        """The tally in one line."""
        total = self.counts.total()
        same = self.counts[Outcome.AGREE] + self.counts[Outcome.BOTH_UNSCHEDULABLE]
        share = f"{100 * same / total:.1f} %" if total else "nothing to compare yet"
        parts = ", ".join(f"{outcome}: {self.counts[outcome]}" for outcome in Outcome)
        return f"agreement {share} of {total} decisions ({parts})"


def describe(comparison: Comparison) -> str:
    """A comparison as a sentence."""
    pod, ours, theirs = comparison.pod, comparison.our_node, comparison.their_node
    match comparison.outcome:
        case Outcome.AGREE:
            return f"pod {pod} went to {theirs}, as it would have here"
        case Outcome.DISAGREE:
            return f"pod {pod} went to {theirs}, here it would have gone to {ours}"
        case Outcome.BOTH_UNSCHEDULABLE:
            return f"pod {pod} fits nowhere, here neither"
        case Outcome.ONLY_OURS:
            return (
                f"pod {pod} found no node ({comparison.their_message}), "
                f"here it would have gone to {ours}"
            )
        case Outcome.ONLY_THEIRS:
            return (
                f"pod {pod} went to {theirs}, here it would have found no node "
                f"({comparison.our_message})"
            )


def _refusal(pod: Pod) -> str | None:
    """What the other scheduler says is in the pod's way, if anything."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message if condition.reason == "Unschedulable" else None
    return None
