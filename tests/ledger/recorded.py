"""What an attempt found, in plain values by node name: from the engine, and from a ledger."""

from dataclasses import dataclass, field

import numpy as np

from moorage.engine.cycle import Cycle
from moorage.engine.decisions import Bind, Unschedulable
from moorage.engine.recording import setback_of
from moorage.errors import PluginError
from moorage.framework.attempt import Attempt
from moorage.framework.profile import Profile
from moorage.framework.status import Code
from moorage.ledger import Ledger, Reader
from moorage.ledger.explaining import WORDLESS_REASON
from moorage.model.pod import Pod

Reasons = frozenset[str]
EVERYTHING = (0, 1_000_000)


@dataclass
class Expected:
    """One attempt as the engine saw it."""

    pod: str
    short: bool
    node: str = ""
    total: int | None = None
    feasible: int = 0
    refusals: dict[tuple[str, str], Reasons] = field(default_factory=dict)
    """By node and plugin; of the plain path also what only nominated pods bring about."""
    feasible_names: set[str] = field(default_factory=set)
    scores: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)
    """By node and plugin: raw and weighted."""
    totals: dict[str, int] = field(default_factory=dict)
    message: str = ""
    has_columns: bool = True


def expected(pod: Pod, attempt: Attempt, decision: Bind | Unschedulable, short: bool) -> Expected:
    """What a ledger has to know of an attempt."""
    told = Expected(pod.key, short)
    if isinstance(decision, Bind):
        told.node, told.total = decision.node_name, decision.total_score
        told.feasible = decision.feasible_nodes
    else:
        told.message = decision.message
    outcome = attempt.outcome
    if outcome is None:
        told.has_columns = False
        return told
    names = attempt.nodes.names()
    for row in np.flatnonzero(outcome.considered).tolist():
        for plugin, verdicts in outcome.verdicts:
            reasons = frozenset(reason.text for reason in verdicts.reasons_of(row))
            if reasons:
                told.refusals[names[row], plugin] = reasons
        status = outcome.overruled.get(row)
        if status is not None and not any(one.rejected[row] for _, one in outcome.verdicts):
            told.refusals[names[row], status.plugin] = frozenset(status.reasons)
    told.feasible_names = {names[row] for row in outcome.feasible.tolist()}
    if attempt.scores is not None and attempt.scored is not None:
        for place, row in enumerate(attempt.scored.tolist()):
            told.totals[names[row]] = int(attempt.scores.totals[place])
            told.scores[names[row]] = {
                part.plugin: (int(part.raw[place]), int(part.weighted[place]))
                for part in attempt.scores.parts
            }
    return told


def decide(
    ledger: Ledger, cycle: Cycle, plain: Cycle, profile: Profile, pod: Pod
) -> tuple[Expected, Bind | Unschedulable]:
    """Decide about a pod as a scheduler does, and have it recorded; `plain` is the reference."""
    recorder = ledger.recorder
    plain._search.start = cycle._search.start
    started = recorder.clock()
    quick = cycle.choose(profile, pod)
    try:
        decision, attempt = (cycle if quick is None else plain).attempt(profile, pod)
    except PluginError as error:
        decision, attempt = Unschedulable(pod, str(error), code=Code.ERROR), None
    if quick is not None:
        assert quick == decision
    if isinstance(decision, Bind):
        recorder.scheduled(pod, profile, decision.node_name, 1, started)
    else:
        recorder.failed(pod, profile, setback_of(decision), 1, started)
    if attempt is None:
        message = decision.message if isinstance(decision, Unschedulable) else ""
        return Expected(pod.key, short=False, message=message, has_columns=False), decision
    return expected(pod, attempt, decision, quick is not None), decision


def check(reader: Reader, number: int, told: Expected) -> None:
    """Does the ledger tell of a decision what the engine found?"""
    found = reader.explain(number, top=0, matrix=EVERYTHING)
    summary = found.decision
    assert (summary.number, summary.pod, summary.message) == (number, told.pod, told.message)
    assert (summary.node, summary.score) == (told.node, told.total)
    assert summary.feasible == told.feasible
    if not told.has_columns:
        assert found.matrix is None
        return
    assert found.matrix is not None
    assert found.matrix.total == len(found.matrix.rows)
    feasible, scored = set(), set()
    refusals: dict[tuple[str, str], Reasons] = {}
    for row in found.matrix.rows:
        if row.feasible:
            feasible.add(row.node)
        for verdict in row.verdicts:
            if verdict.verdict == "rejected" and (row.node, verdict.plugin) in told.refusals:
                refusals[row.node, verdict.plugin] = frozenset(verdict.reasons)
            elif verdict.verdict == "rejected":
                assert _was_not_considered(told, row.node), (row.node, verdict)
        if row.total is not None:
            scored.add(row.node)
            assert row.total == told.totals[row.node]
            parts = {part.plugin: (part.raw, part.weighted) for part in row.parts}
            expected_parts = told.scores[row.node]
            for plugin in parts.keys() | expected_parts.keys():
                nothing = (0, 0)
                assert parts.get(plugin, nothing) == expected_parts.get(plugin, nothing), plugin
    assert feasible == told.feasible_names
    assert scored == told.totals.keys()
    assert refusals.keys() == told.refusals.keys()
    for key, reasons in refusals.items():
        wordless = told.short and WORDLESS_REASON in reasons
        assert wordless or reasons == told.refusals[key], key


def _was_not_considered(told: Expected, node: str) -> bool:
    return node not in told.feasible_names and not any(key[0] == node for key in told.refusals)
