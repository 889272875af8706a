"""Everything the plugins say about a pod, in plain values and by node name."""

from dataclasses import dataclass, field

import numpy as np

from moorage.engine.cycle import Cycle
from moorage.framework.attempt import AttemptResult
from moorage.framework.profile import Profile
from moorage.framework.status import Status, Verdicts, worst
from moorage.model.pod import Pod
from reference.answers import Refusal


@dataclass
class Asked:
    """The answers about one pod in plain values."""

    rejection: Refusal | None
    node_names: set[str] | None
    skipped: set[str]
    by_plugin: dict[str, dict[str, Refusal | None]] = field(default_factory=dict)
    first: dict[str, tuple[str, Refusal] | None] = field(default_factory=dict)
    raw: dict[str, dict[str, int]] = field(default_factory=dict)
    weighted: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    message: str = ""


def ask(cycle: Cycle, profile: Profile, pod: Pod) -> Asked:
    """Everything about a pod: PreFilter, Filter, and scores of the feasible nodes."""
    attempt = cycle.filter(profile, pod)
    before = attempt.before
    asked = Asked(
        plain(before.rejection),
        None if before.node_names is None else set(before.node_names),
        set(before.skipped),
    )
    outcome = attempt.outcome
    if outcome is None:
        asked.message = attempt.diagnosis.message()
        return asked
    names = attempt.nodes.names()
    for plugin, verdicts in outcome.verdicts:
        asked.by_plugin[plugin] = dict(zip(names, refusals(verdicts), strict=True))
    for row in np.flatnonzero(outcome.considered):
        status = outcome.status(int(row))
        refusal = plain(status)
        asked.first[names[row]] = (
            None if status is None or refusal is None else (status.plugin, refusal)
        )
    if outcome.any_feasible:
        _add_scores(asked, attempt, cycle)
    else:
        asked.message = attempt.diagnosis.message()
    return asked


def _add_scores(asked: Asked, attempt: AttemptResult, cycle: Cycle) -> None:
    assert attempt.outcome is not None
    rows = attempt.outcome.feasible
    names = [attempt.nodes.node(int(row)).name for row in rows]
    cycle.runner.score(attempt, rows)
    scores = attempt.scores
    assert scores is not None
    for part in scores.parts:
        asked.raw[part.plugin] = dict(zip(names, part.raw.tolist(), strict=True))
        asked.weighted[part.plugin] = dict(zip(names, part.weighted.tolist(), strict=True))
    asked.totals = dict(zip(names, scores.totals.tolist(), strict=True))


def refusals(verdicts: Verdicts) -> list[Refusal | None]:
    """Every row's answer."""
    answers: list[Refusal | None] = []
    for row in range(len(verdicts)):
        reasons = verdicts.reasons_of(row)
        texts = tuple(reason.text for reason in reasons)
        answers.append(Refusal(worst(reasons).value, texts) if reasons else None)
    return answers


def plain(status: Status | None) -> Refusal | None:
    """A status as a plain value."""
    return None if status is None else Refusal(status.code.value, status.reasons)
