"""Why preemption does, or does not, make room for a pod.

Owns the dry run of DefaultPreemption with everything that its one sentence leaves out: which nodes
could be freed, of whom, and why the others could not. Nobody is evicted and nobody is nominated:
what plugins propose is reported and forgotten.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Rows
from moorage.explain.report import Preemption, PreemptionCandidate, PreemptionNode
from moorage.explain.survey import MOST_EXAMPLES
from moorage.framework.attempt import AttemptResult
from moorage.framework.plugin import Candidate, PostFilterResult
from moorage.framework.post_filtering import post_filter
from moorage.framework.profile import Profile
from moorage.framework.status import Code, Status
from moorage.model.workloads import PodDisruptionBudget
from moorage.plugins.default_preemption import DefaultPreemption, columns
from moorage.plugins.default_preemption.plugin import NOT_HELPFUL
from moorage.plugins.default_preemption.victims import compile_budgets, pick, select_victims

MOST_CANDIDATES = 20
MOST_TRIALS = 60
"""Nodes that are tried one by one, where they cannot be tried together; about 3 ms each."""
_PREFIX = "preemption: "
_NOT_ENABLED = "no plugin makes room: DefaultPreemption is not enabled"


def explain_preemption(profile: Profile, attempt: AttemptResult) -> tuple[Preemption, str]:
    """What making room could do for a pod that no node takes; `profile` is that of a trial.

    The second value is what PostFilter adds to the sentence of the pod's event.
    """
    attempt.profile = profile
    plugin = next((p for p in profile.post_filter if isinstance(p, DefaultPreemption)), None)
    objection = _NOT_ENABLED if plugin is None else plugin.objection(attempt.pod, attempt)
    if plugin is None or objection is not None:
        result = post_filter(attempt) if profile.post_filter else None
        return Preemption(False, objection or _NOT_ENABLED), _proposal(result)
    curable = attempt.diagnosis.resolvable_rows()
    order = attempt.nodes.search_order
    rows = order[curable[order]]
    if _costly(attempt, rows):
        return _sampled(plugin, attempt, rows), ""
    result = post_filter(attempt)
    run = _dry_run(plugin, attempt, rows)
    if result.status.code is Code.SUCCESS:
        message = _would_leave(len(result.victims), result.nominated_node or "")
        # Extenders may have left fewer.
        agreed = result.candidates if attempt.extenders else None
        return run.report(message, result.nominated_node or "", agreed), _proposal(result)
    own = [text for text in result.status.reasons if text.startswith(_PREFIX)]
    message = own[0].removeprefix(_PREFIX) if own else result.status.message
    return run.report(message), _proposal(result)


class _Run(msgspec.Struct, frozen=True):
    """What came of trying some rows."""

    attempt: AttemptResult
    tried: Rows
    candidates: Sequence[Candidate]
    freed: Rows
    """The rows of the candidates."""
    refusals: Sequence[tuple[int, Status]]
    """Rows, and why preemption does not help there."""

    def report(
        self, message: str, chosen: str = "", agreed: Sequence[Candidate] | None = None
    ) -> Preemption:
        """The same in the words of the report; nothing helps unless a node was `chosen`."""
        candidates: Sequence[Candidate] = ()
        few: list[Candidate] = []
        if chosen:
            candidates = self.candidates if agreed is None else agreed
            few = [self._on(chosen)] if agreed is None else []
            few += [c for c in candidates[:MOST_CANDIDATES] if agreed or c.node_name != chosen]
        return Preemption(
            bool(chosen),
            message,
            chosen,
            tuple(_told(candidate, chosen) for candidate in few[:MOST_CANDIDATES]),
            self._grouped(),
            len(candidates),
            len(self.tried),
        )

    def _on(self, node_name: str) -> Candidate:
        """The candidate of a name; only few of thousands are ever made into objects."""
        place = int(np.flatnonzero(self.freed == self.attempt.nodes.row_of(node_name))[0])
        return self.candidates[place]

    def _grouped(self) -> tuple[PreemptionNode, ...]:
        rows: dict[str, list[int]] = {}
        for row, status in self.refusals:
            for text in status.reasons:
                rows.setdefault(text, []).append(row)
        hopeless = np.flatnonzero(~self.attempt.diagnosis.resolvable_rows())
        if len(hopeless):
            rows.setdefault(NOT_HELPFUL, []).extend(hopeless.tolist())
        names = self.attempt.nodes
        nodes = [
            PreemptionNode(
                text, len(where), tuple(names.node(row).name for row in where[:MOST_EXAMPLES])
            )
            for text, where in rows.items()
        ]
        return tuple(sorted(nodes, key=lambda one: (-one.nodes, one.reason)))


def _told(candidate: Candidate, chosen: str) -> PreemptionCandidate:
    return PreemptionCandidate(
        candidate.node_name,
        tuple(pod.key for pod in candidate.victims),
        candidate.pdb_violations,
        candidate.node_name == chosen,
    )


def _dry_run(plugin: DefaultPreemption, attempt: AttemptResult, rows: Rows) -> _Run:
    """Try all of the rows, where the plugin stops when it has found enough."""
    budgets = compile_budgets(plugin.handle.listers.of(PodDisruptionBudget))
    if not len(plugin.handle.groups) and columns.applies(attempt):
        run = columns.select_victims_everywhere(attempt, rows, budgets)
        refused = np.delete(rows, run.places).tolist()
        refusals = list(zip(refused, run.refusals, strict=True))
        return _Run(attempt, rows, run, rows[run.places], refusals)
    candidates: list[Candidate] = []
    freed: list[int] = []
    refusals = []
    for row in rows.tolist():
        answer = select_victims(attempt, row, budgets, plugin.units_on(attempt, row))
        if isinstance(answer, Status):
            refusals.append((row, answer))
        else:
            candidates.append(answer)
            freed.append(row)
    return _Run(attempt, rows, candidates, np.array(freed, np.intp), refusals)


def _sampled(plugin: DefaultPreemption, attempt: AttemptResult, rows: Rows) -> Preemption:
    """What can be said after a look at some of the rows; the plugin itself would look at more."""
    crowded = attempt.nodes.have_lesser_pods(attempt.pod.priority)
    tried = rows[crowded[rows]][:MOST_TRIALS]
    run = _dry_run(plugin, attempt, tried)
    looked = f"{len(tried)} of {len(rows)} nodes with less important pods were tried"
    if not run.candidates:
        return run.report(f"{looked}, and none of these could be freed")
    chosen = pick(run.candidates, attempt.now)
    message = f"{_would_leave(len(chosen.victims), chosen.node_name)}; {looked}"
    return run.report(message, chosen.node_name)


def _costly(attempt: AttemptResult, rows: Rows) -> bool:
    """Would too many nodes have to be tried one by one?"""
    if columns.applies(attempt):
        return False
    crowded = attempt.nodes.have_lesser_pods(attempt.pod.priority)
    return int(np.count_nonzero(crowded[rows])) > MOST_TRIALS


def _proposal(result: PostFilterResult | None) -> str:
    return "" if result is None else result.status.message


def _would_leave(victims: int, node_name: str) -> str:
    noun = "pod" if victims == 1 else "pods"
    return f"{victims} less important {noun} would have to leave node {node_name}"
