"""A recorded scheduler's decisions, each made again by the engine on the recorded state.

Owns the comparison: the same node, a tie, or a difference with the plugin that made it. Each
decision is compared by itself, as after it the cluster goes on as it was recorded. A recording does
not tell what a scheduler knew when it decided, only when a binding was seen: where another order of
bindings that were on their way together, or a state moments older, explains a decision, it counts.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

from moorage.engine.decisions import Bind, Gated
from moorage.errors import PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.profile import Profile
from moorage.model.pod import Pod
from moorage.recordings.followed import FollowedCluster, RecordedStep, RecordedSteps
from moorage.recordings.moments import NEAR_STEPS, Moments
from moorage.recordings.recording_file import Recording
from moorage.simulator.world import World


class Agreement(Enum):
    """How our decision compares with the recorded one."""

    SAME = "same"
    TIE = "tie"
    DIFFERENT = "different"


class ComparedDecision(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One decision."""

    at: float
    """Seconds since the recording began."""
    pod: str
    node: str
    """Where it went."""
    agreement: Agreement
    ours: str = ""
    """Where we would send it; empty for nowhere."""
    plugin: str = ""
    """Who made the difference."""
    message: str = ""
    moment: str = ""
    """What had to be otherwise than when the binding was seen."""


class ComparedRecording(msgspec.Struct, rename="camel"):
    """What came of a replay."""

    decisions: list[ComparedDecision] = []
    seconds: float = 0.0
    foreign: int = 0
    """Pods of other schedulers."""
    unseen: int = 0
    """Pods that got their nodes while nobody recorded."""
    waiting: int = 0
    """Pods that wait in the end and fit nowhere."""
    fitting: int = 0
    """Pods that wait in the end though they fit: they have just come, or are in back-off."""

    def count(self, agreement: Agreement) -> int:
        """How many decisions compare like this."""
        return sum(one.agreement is agreement for one in self.decisions)


class NodeComparison(msgspec.Struct, frozen=True):
    """What is said of one decision; the fields are those of `ComparedDecision`."""

    agreement: Agreement
    ours: str = ""
    plugin: str = ""
    message: str = ""


_SAME = NodeComparison(Agreement.SAME)


def compare(recording: Recording, world: World) -> ComparedRecording:
    """Replay a recording, and decide about every pod where its scheduler did."""
    return _Comparison(recording, world).run()


class _Comparison:
    def __init__(self, recording: Recording, world: World) -> None:
        self._start = recording.header.at
        self._steps = _Ahead(RecordedSteps(recording))
        self._cluster = FollowedCluster(world, str(recording.path))
        self._world = world
        self._profiles = {
            name: profile.without_post_filter() for name, profile in world.profiles.items()
        }
        self._found = ComparedRecording()

    def run(self) -> ComparedRecording:
        seen, last = False, self._start
        for step in self._steps:
            if isinstance(step, bool):
                seen = step
                self._cluster.past.clear()
                continue
            last = step.at
            pod = step.binding
            if pod is not None and isinstance(step.after, Pod):
                if not seen:
                    self._found.unseen += 1
                else:
                    self._compare(step.at, pod, step.after.spec.node_name)
            self._cluster.follow(step)
        self._found.seconds = round(last - self._start, 6)
        if seen:
            self._count_waiting()
        return self._found

    def _compare(self, at: float, pod: Pod, node: str) -> None:
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            self._found.foreign += 1
            return
        verdict, moment = self._judge(profile, pod, node), ""
        if verdict.agreement is not Agreement.SAME:
            coming = self._steps.ahead(NEAR_STEPS)
            moments = Moments(self._cluster, coming, at, pod, self._choose)
            different = verdict.agreement is Agreement.DIFFERENT
            for other in moments.all() if different else moments.likely():
                with self._cluster.otherwise(other.steps):
                    found = self._judge(profile, pod, node)
                if found.agreement is Agreement.SAME:
                    verdict, moment = found, other.description
                    break
                if found.agreement is Agreement.TIE and verdict.agreement is Agreement.DIFFERENT:
                    verdict, moment = found, other.description
        self._note(at, pod, node, verdict, moment)

    def _count_waiting(self) -> None:
        for pod in self._cluster.waiting:
            profile = self._profiles.get(pod.spec.scheduler_name)
            if profile is None:
                continue
            if self._judge(profile, pod, "").agreement is Agreement.SAME:
                self._found.waiting += 1
            else:
                self._found.fitting += 1

    def _note(self, at: float, pod: Pod, node: str, verdict: NodeComparison, moment: str) -> None:
        ours = node if verdict.agreement is Agreement.SAME else verdict.ours
        self._found.decisions.append(
            ComparedDecision(
                round(at - self._start, 6),
                pod.key,
                node,
                verdict.agreement,
                ours,
                verdict.plugin,
                verdict.message,
                moment,
            )
        )

    # ---- deciding ----

    def _judge(self, profile: Profile, pod: Pod, node: str) -> NodeComparison:
        """Decide about a pod as the cluster is, and compare."""
        try:
            decision, attempt = self._world.cycle.decide(profile, pod)
        except PluginError as error:
            return NodeComparison(Agreement.DIFFERENT, "", error.plugin, str(error))
        finally:
            self._world.handle.cycle_states.end(pod)
        if not isinstance(decision, Bind):
            if not node:
                return _SAME
            if isinstance(decision, Gated):
                gate = decision.status
                return NodeComparison(Agreement.DIFFERENT, "", gate.plugin, gate.message)
            return _refused(attempt, node, "", decision.message)
        if decision.node_name == node:
            return _SAME
        assert attempt is not None, "a pod is placed only after its nodes were filtered"
        return compared_nodes(attempt, node, decision.node_name)

    def _choose(self, pod: Pod) -> str:
        """Where a pod goes as the cluster is; empty for nowhere."""
        profile = self._profiles.get(pod.spec.scheduler_name)
        if profile is None:
            return ""
        try:
            decision, _ = self._world.cycle.decide(profile, pod)
        except PluginError:
            return ""
        finally:
            self._world.handle.cycle_states.end(pod)
        return decision.node_name if isinstance(decision, Bind) else ""


def compared_nodes(attempt: AttemptResult, node: str, ours: str) -> NodeComparison:
    """How our node for a pod compares with the recorded one, either of them empty for none."""
    totals = attempt.totals
    if node == ours:
        return _SAME
    if not node:
        return NodeComparison(Agreement.DIFFERENT, ours, "", "it fits")
    if node not in totals:
        return _refused(attempt, node, ours, "")
    if totals[node] == totals[ours]:
        return NodeComparison(Agreement.TIE, ours)
    return NodeComparison(Agreement.DIFFERENT, ours, *_score_difference(attempt, node, ours))


def _refused(attempt: AttemptResult | None, node: str, ours: str, message: str) -> NodeComparison:
    if attempt is None:
        return NodeComparison(Agreement.DIFFERENT, ours, "", message)
    row = attempt.nodes.row_of(node)
    if row is None:
        return NodeComparison(Agreement.DIFFERENT, ours, "", f"there is no node {node}")
    status = attempt.status(row)
    if status is None:
        return NodeComparison(Agreement.DIFFERENT, ours, "", message)
    return NodeComparison(Agreement.DIFFERENT, ours, status.plugin, status.message or message)


def _score_difference(attempt: AttemptResult, node: str, ours: str) -> tuple[str, str]:
    """The plugin that spoke most for our node against the recorded one, and the totals."""
    totals, scores, scored = attempt.totals, attempt.scores, attempt.scored
    assert scores is not None, "there are totals"
    assert scored is not None, "there are totals"
    places = {attempt.nodes.node(row).name: place for place, row in enumerate(scored.tolist())}
    here, there = places[ours], places[node]
    gains = {part.plugin: int(part.weighted[here] - part.weighted[there]) for part in scores.parts}
    plugin = max(gains, key=gains.__getitem__, default="")
    return plugin, f"{ours} scores {totals[ours]}, {node} {totals[node]}"


class _Ahead:
    """Steps one by one, and those that come next."""

    def __init__(self, steps: Iterable[RecordedStep | bool]) -> None:
        self._steps = iter(steps)
        self._read: deque[RecordedStep | bool] = deque()

    def __iter__(self) -> Iterator[RecordedStep | bool]:
        """All of them."""
        while self._fill(1):
            yield self._read.popleft()

    def ahead(self, count: int) -> Iterator[RecordedStep]:
        """The next ones, until the recording was interrupted."""
        self._fill(count)
        for step in list(self._read)[:count]:
            if isinstance(step, bool):
                return
            yield step

    def _fill(self, count: int) -> bool:
        while len(self._read) < count:
            step = next(self._steps, None)
            if step is None:
                break
            self._read.append(step)
        return bool(self._read)
