"""A decision in the words of kube-scheduler-simulator: annotations, one per extension point.

Owns keys, shapes and sizes. Every value is JSON in a string, as its web page reads it. A pod's
annotations may take 256 KiB together and its clients may have put in some of their own, so only the
best nodes are told, and of earlier attempts as many as there is room for. Writes nothing.
"""

from collections.abc import Mapping, Sequence

import msgspec

from moorage.engine.observer import SCHEDULED
from moorage.explain.report import DecisionExplanation, NodeScores, NodeVerdicts
from moorage.framework.plugin import Plugin
from moorage.framework.profile import Profile

PREFIX = "kube-scheduler-simulator.sigs.k8s.io/"
HISTORY = f"{PREFIX}result-history"
TOP = 10
"""Of how many nodes scores and refusals are told."""
LIMIT = 256 * 1024
"""What the API server allows for all annotations of a pod, keys included."""
_OURS = 96 * 1024
_SPARE = 32 * 1024
"""Room that is left to others."""
_PASSED = "passed"
_SUCCESS = "success"
_VICTIM = "preemption victim"
_EVICTS = "DefaultPreemption"
"""Others that are asked when no node takes a pod free no node of pods."""

Results = dict[str, str]
Table = dict[str, dict[str, str]]


def results(told: DecisionExplanation, profile: Profile) -> Results:
    """The annotations of one attempt."""
    placed = told.decision.result == SCHEDULED
    statuses = _pre_filter(told, profile)
    chosen = {PREFIX + "selected-node": told.decision.node} if placed else {}
    return {
        PREFIX + "prefilter-result-status": _text(statuses),
        PREFIX + "prefilter-result": _text({}),
        PREFIX + "filter-result": _text(_filter(told, profile)),
        PREFIX + "postfilter-result": _text(_post_filter(told, profile)),
        PREFIX + "prescore-result": _text(_scored(told, profile)),
        PREFIX + "score-result": _text(_scores(told.scores, final=False)),
        PREFIX + "finalscore-result": _text(_scores(told.scores, final=True)),
        PREFIX + "reserve-result": _text(_all(profile.reserve) if placed else {}),
        PREFIX + "permit-result": _text(_all(profile.permit) if placed else {}),
        PREFIX + "permit-result-timeout": _text({}),
        PREFIX + "prebind-result": _text(_all(profile.pre_bind) if placed else {}),
        PREFIX + "bind-result": _text(_all(profile.bind[:1]) if placed else {}),
        **chosen,
    }


def annotations(made: Results, known: Mapping[str, str]) -> Results | None:
    """What to write on a pod with these annotations; None if nothing is new or there is no room."""
    if all(known.get(key) == value for key, value in made.items()):
        return None
    others = {key: value for key, value in known.items() if not key.startswith(PREFIX)}
    room = min(_OURS, LIMIT - _SPARE - size(others))
    left = room - size(made) - len(HISTORY)
    if left < 0:
        return None
    attempts = [*_history(known.get(HISTORY, "")), made]
    while len(attempts) > 1 and len(_text(attempts).encode()) > left:
        del attempts[0]
    history = _text(attempts)
    return {**made, HISTORY: history if len(history.encode()) <= left else "[]"}


def size(values: Mapping[str, str]) -> int:
    """How much of the limit annotations take."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in values.items())


def _pre_filter(told: DecisionExplanation, profile: Profile) -> dict[str, str]:
    """Everybody agreed, or somebody refused and those behind were not asked."""
    refused = {one.plugin: one.reason for one in told.rejections if one.point == "PreFilter"}
    skipped = dict.fromkeys(told.skipped_filter_plugins, "")
    found: dict[str, str] = {}
    for plugin in profile.pre_filter:
        found[plugin.name] = refused.get(plugin.name, skipped.get(plugin.name, _SUCCESS))
        if plugin.name in refused:
            break
    return found


def _filter(told: DecisionExplanation, profile: Profile) -> Table:
    rows = told.matrix.rows if told.matrix is not None else ()
    table = {row.node: _row(row) for row in rows[:TOP]}
    skipped = set(told.skipped_filter_plugins)
    passed = {p.name: _PASSED for p in profile.filter if p.name not in skipped}
    # A node that was scored had passed everything.
    return {**table, **{node.node: passed for node in told.scores[:TOP]}}


def _row(row: NodeVerdicts) -> dict[str, str]:
    """Up to the first refusal, as upstream asks no further."""
    found: dict[str, str] = {}
    for verdict in row.verdicts:
        if verdict.verdict == "ok":
            found[verdict.plugin] = _PASSED
        elif verdict.verdict == "rejected":
            found[verdict.plugin] = ", ".join(verdict.reasons)
            break
    return found


def _post_filter(told: DecisionExplanation, profile: Profile) -> Table:
    nominated = told.decision.nominated_node
    if told.decision.result == SCHEDULED or not nominated or not profile.post_filter:
        return {}
    names = [plugin.name for plugin in profile.post_filter]
    return {nominated: {_EVICTS if _EVICTS in names else names[-1]: _VICTIM}}


def _scored(told: DecisionExplanation, profile: Profile) -> dict[str, str]:
    """Who prepared scores; one that had nothing to say told so with an empty text."""
    if not told.scores:
        return {}
    skipped = set(told.skipped_score_plugins)
    return {p.name: "" if p.name in skipped else _SUCCESS for p in profile.pre_score}


def _scores(nodes: Sequence[NodeScores], *, final: bool) -> Table:
    return {
        node.node: {part.plugin: str(part.weighted if final else part.raw) for part in node.parts}
        for node in nodes[:TOP]
    }


def _all(plugins: Sequence[Plugin]) -> dict[str, str]:
    return {plugin.name: _SUCCESS for plugin in plugins}


def _history(text: str) -> list[Results]:
    """Earlier attempts; whatever else stands there is given up."""
    try:
        return msgspec.json.decode(text or "[]", type=list[dict[str, str]])
    except msgspec.MsgspecError:
        return []


def _text(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()
