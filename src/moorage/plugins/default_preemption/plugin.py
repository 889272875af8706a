"""The DefaultPreemption plugin: the decision; evicting the victims is done elsewhere."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from moorage import log_lines
from moorage.cluster.pod_groups import group_of
from moorage.errors import ExtenderError, PluginError
from moorage.framework.attempt import AttemptResult
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.extenders import agreed_victims
from moorage.framework.group_preemption import (
    PodGroupPostFilterPlugin,
    PodGroupPostFilterResult,
    Rehearsal,
)
from moorage.framework.plugin import Candidate, PostFilterPlugin, PostFilterResult, PreEnqueuePlugin
from moorage.framework.status import Code, Status
from moorage.model.pod import Pod
from moorage.model.pod_group import PodGroup
from moorage.model.workloads import PodDisruptionBudget
from moorage.plugins.default_preemption import columns
from moorage.plugins.default_preemption.group_victims import (
    NEVER,
    ONGOING,
    less_important,
    may_preempt,
    select_group_victims,
)
from moorage.plugins.default_preemption.units import units_of
from moorage.plugins.default_preemption.victims import (
    NO_VICTIMS,
    Unit,
    compile_budgets,
    pick,
    select_victims,
)

NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin):
    """Find the node where evicting less important pods hurts least."""

    name = "DefaultPreemption"
    looks_up = (PodDisruptionBudget,)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """A pod waits while its victims, or those of its group, are being evicted."""
        preempting = self.handle.preempting
        if not preempting:
            return None
        gates, key = self.handle.gates, group_of(pod)
        uid, what = pod.uid, "pod"
        if key is not None and gates.enabled("GenericWorkload"):
            group = self.handle.listers.of(PodGroup).get(key.name, key.namespace)
            if group is None:
                return None
            uid, what = group.metadata.uid, "pod group"
        if not gates.enabled("SchedulerAsyncPreemption"):
            return None
        if not preempting.is_running(uid, self.handle.listers.of(Pod)):
            return None
        text = f"waiting for the preemption for this {what} to be finished"
        return Status(Code.UNRESOLVABLE, (text,))

    def post_filter(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
        """Propose a node and its victims."""
        observer = self.handle.observer
        observer.preemption_attempted()
        started = observer.time()
        result = self._for_pod(pod, attempt)
        observer.preemption_evaluated("pod", result.status.code.value, observer.time() - started)
        return result

    def _for_pod(self, pod: Pod, attempt: AttemptResult) -> PostFilterResult:
        objection = self.objection(pod, attempt)
        if objection is not None:
            log_lines.NOT_ELIGIBLE(pod, objection)
            return _failure(objection, nominated_node=_unwritten_nomination(pod, attempt))
        candidates, refusals, chosen = self._dry_run(attempt)
        if chosen is None:
            if errors := _errors(refusals):
                message = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
                return PostFilterResult(Status(Code.ERROR, (f"preemption: {message}",)))
            log_lines.NO_CANDIDATE(pod)
            return _failure(_sentence(refusals, len(attempt.nodes)), nominated_node="")
        if attempt.extenders:
            try:
                agreed = agreed_victims(attempt.extenders, pod, candidates, attempt.nodes)
            except ExtenderError as error:
                return PostFilterResult(Status(Code.ERROR, (f"preemption: {error}",)))
            if not agreed:
                return _failure("no candidate node for preemption", nominated_node=None)
            if agreed is not candidates:
                candidates, chosen = agreed, pick(agreed, attempt.now)
        log_lines.TARGET_CHOSEN(chosen.node_name, pod)
        text = (
            f"preemption: found a potential placement for pod on node {chosen.node_name}, "
            f"preempting {len(chosen.victims)} victims"
        )
        status = Status(Code.SUCCESS, (text,))
        return PostFilterResult(
            status, chosen.node_name, chosen.victims, candidates, chosen.pdb_violations
        )

    def objection(self, pod: Pod, attempt: AttemptResult) -> str | None:
        """Why the pod may not preempt others now, if so."""
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = attempt.nodes.row_of(pod.status.nominated_node_name or attempt.nominated_node)
        if row is None or attempt.status(row).code is Code.UNRESOLVABLE:
            return None
        for other in attempt.nodes.pods_on(row):
            if other.priority >= pod.priority:
                continue
            if self._leaves(other):
                return "not eligible due to a terminating pod on the nominated node."
        return None

    def pod_group_post_filter(
        self, group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
    ) -> PodGroupPostFilterResult:
        """Propose victims for a whole group."""
        result = self._for_group(group, pods, rehearsal)
        status = result.status
        self.handle.observer.group_preemption_attempted(status.code.value)
        text = f"pod group preemption: {status.message}"
        return msgspec.structs.replace(result, status=Status(status.code, (text,)))

    def _for_group(
        self, group: PodGroup, pods: Sequence[Pod], rehearsal: Rehearsal
    ) -> PodGroupPostFilterResult:
        listers, gates = self.handle.listers, self.handle.gates
        groups = listers.of(PodGroup)
        if not may_preempt(group, pods, by_group=gates.enabled("PodGroupPreemptionPolicy")):
            return PodGroupPostFilterResult(NEVER)
        nominated = {pod.uid: pod.status.nominated_node_name for pod in pods}
        for node_name in dict.fromkeys(nominated.values()):
            for other in rehearsal.pods_on(node_name):
                if less_important(other, group, groups) and self._leaves(other):
                    return PodGroupPostFilterResult(ONGOING, nominations=nominated)
        observer = self.handle.observer
        started = observer.time()
        budgets = compile_budgets(listers.of(PodDisruptionBudget))
        units = units_of(rehearsal.pods(), groups, self.handle.groups)
        result = select_group_victims(group, rehearsal, units, budgets)
        code, seconds = result.status.code.value, observer.time() - started
        observer.preemption_evaluated("podgroup", code, seconds)
        return result

    def _leaves(self, pod: Pod) -> bool:
        """Is a pod being evicted for another one?"""
        return _being_preempted(pod) or self.handle.preempting.is_leaving(pod)

    def units_on(self, attempt: AttemptResult, row: int) -> Sequence[Unit] | None:
        """What may be evicted from a node; None: every pod by itself, as there are no groups."""
        groups = self.handle.groups
        if not len(groups):
            return None
        return units_of(attempt.nodes.pods_on(row), self.handle.listers.of(PodGroup), groups)

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Re-evaluate the gate when pods go; whether to retry is for the other plugins to say."""
        return [on(EventResource.ASSIGNED_POD, ActionType.DELETE, lambda *change: False)]

    def _dry_run(
        self, attempt: AttemptResult
    ) -> tuple[Sequence[Candidate], Sequence[Status], Candidate | None]:
        """Candidates, why the other nodes are none, and the candidate to take."""
        curable = attempt.diagnosis.resolvable_rows()
        order = attempt.nodes.search_order
        rows = order[curable[order]]
        enough = self._enough(len(rows))
        if not len(rows):
            log_lines.WILL_NOT_HELP(attempt.pod)
            return (), (), None
        if enough < len(rows):
            # Not all are going to be looked at. Pods of one kind fill neighbours, so that some from
            # everywhere are a better choice than a row of them.
            chance = np.random.default_rng(self.handle.random.getrandbits(64))
            rows = chance.permutation(rows)
        budgets = compile_budgets(self.handle.listers.of(PodDisruptionBudget))
        if log_lines.DRY_RUN:
            log_lines.DRY_RUN(attempt.pod, len(rows), len(budgets), 0, enough)
            for row in rows:
                log_lines.CHECKING_NODE(attempt.pod, attempt.nodes.node(int(row)).name)
        refusals: list[Status] = []
        if not len(self.handle.groups):
            crowded = rows[attempt.nodes.have_lesser_pods(attempt.pod.priority)[rows]]
            refusals += [NO_VICTIMS] * (len(rows) - len(crowded))
            rows = crowded
            if len(rows) and columns.applies(attempt):
                run = columns.select_victims_everywhere(attempt, rows, budgets).first(enough)
                _log_victims(attempt.pod, run)
                return run, refusals + run.refusals, run.best() if len(run) else None
        candidates: list[Candidate] = []
        for row in rows:
            units = self.units_on(attempt, int(row))
            result = select_victims(attempt, int(row), budgets, units)
            if isinstance(result, Status):
                refusals.append(result)
                continue
            candidates.append(result)
            harmless = any(not candidate.pdb_violations for candidate in candidates)
            if harmless and len(candidates) >= enough:
                break
        _log_victims(attempt.pod, candidates)
        return candidates, refusals, pick(candidates, attempt.now) if candidates else None

    def _enough(self, nodes: int) -> int:
        """After how many candidates to stop looking."""
        share: int = nodes * self.args.min_candidate_nodes_percentage // 100
        least: int = self.args.min_candidate_nodes_absolute
        return min(nodes, max(share, least))


def _log_victims(pod: Pod, candidates: Sequence[Candidate]) -> None:
    if log_lines.POTENTIAL_VICTIMS:
        for candidate in candidates:
            for victim in candidate.victims:
                named = [{"name": victim.name, "namespace": victim.namespace}]
                log_lines.POTENTIAL_VICTIMS(pod, named, candidate.node_name)


def _unwritten_nomination(pod: Pod, attempt: AttemptResult) -> str | None:
    """The node that the pod goes on waiting for; None if its status says all there is to say."""
    if pod.status.nominated_node_name:
        return None
    return attempt.nominated_node or None


def _being_preempted(pod: Pod) -> bool:
    if not pod.terminating:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False


def _errors(refusals: Iterable[Status]) -> list[str]:
    """What went wrong on some nodes, each told once."""
    failed = (status for status in refusals if status.code is Code.ERROR)
    told = (
        str(PluginError(one.plugin, "Filter", one.message)) if one.plugin else one.message
        for one in failed
    )
    return list(dict.fromkeys(told))


def _sentence(refusals: Sequence[Status], nodes: int) -> str:
    counts = Counter(reason for status in refusals for reason in status.reasons)
    if len(refusals) < nodes:
        counts[NOT_HELPFUL] += nodes - len(refusals)
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{nodes} nodes are available: {', '.join(reasons)}."


def _failure(message: str, *, nominated_node: str | None) -> PostFilterResult:
    status = Status(Code.UNSCHEDULABLE, (f"preemption: {message}",))
    return PostFilterResult(status, nominated_node)
