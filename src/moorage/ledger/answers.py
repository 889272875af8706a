"""Answers that cannot be had again: of extenders, and of plugins that do not come with Moorage.

Owns taking them down when an attempt ends, and the stand-ins that give them again. Values go by the
order in which nodes are searched, which a rebuilt cluster has, too; its rows may be others.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.view import NodeView
from moorage.framework.attempt import AttemptResult
from moorage.framework.extenders import Extender, FilterReply
from moorage.framework.plugin import (
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.ledger.entries import ExtenderSettings, RecordedAnswer
from moorage.model.node import Node
from moorage.model.pod import Pod

EXTENDERS = "*"
"""The name of what all extenders together made of the nodes; no plugin has it."""
PODLESS = "podless"
"""Its status code if nodes came back without their pods."""

# Taking down


def answers_of(
    attempt: AttemptResult, foreign: Sequence[str], order: Rows, chosen: str
) -> tuple[RecordedAnswer, ...]:
    """What some plugins and all extenders said in an attempt that ended."""
    found = [_plugin_answer(attempt, name, order) for name in foreign]
    if attempt.extenders and attempt.outcome is not None:
        found.append(_extenders_answer(attempt, order, chosen))
        names = {one.name for one in attempt.extenders}
        parts = () if attempt.scores is None else attempt.scores.parts
        found += [
            RecordedAnswer(part.plugin, raw=_ordered(attempt, part.raw, order))
            for part in parts
            if part.plugin in names
        ]
    return tuple(found)


def _plugin_answer(attempt: AttemptResult, name: str, order: Rows) -> RecordedAnswer:
    before, outcome, scores = attempt.before, attempt.outcome, attempt.scores
    status = before.rejection
    verdicts = () if outcome is None else outcome.verdicts
    said = next((one for plugin, one in verdicts if plugin == name), None)
    parts = () if scores is None else scores.parts
    part = next((one for one in parts if one.plugin == name), None)
    return RecordedAnswer(
        name,
        status=(status.code.value, status.reasons) if status and status.plugin == name else None,
        nodes=tuple(before.node_names or ()) if name in before.named else None,
        skipped=name in before.skipped,
        unscored=part is None,
        reasons=() if said is None else tuple((r.text, r.code.value) for r in said.reasons),
        bits=() if said is None else _listed(said.bits[order]),
        raw=() if part is None else _ordered(attempt, part.raw, order),
        normalized=() if part is None else _ordered(attempt, part.normalized, order),
    )


def _extenders_answer(attempt: AttemptResult, order: Rows, chosen: str) -> RecordedAnswer:
    """Which nodes they left; with only one left there are no scores to tell."""
    outcome, names = attempt.outcome, attempt.nodes.names()
    assert outcome is not None, "extenders are asked after the plugins"
    left = () if attempt.scored is None else tuple(names[row] for row in attempt.scored.tolist())
    verdicts = Verdicts(len(names))
    for row, status in outcome.refused.items():
        for text in status.reasons or ("",):
            verdicts.reject(row, Reason(text, status.code))
    return RecordedAnswer(
        EXTENDERS,
        status=(PODLESS, ()) if attempt.podless else None,
        nodes=left or ((chosen,) if chosen else ()),
        reasons=tuple((reason.text, reason.code.value) for reason in verdicts.reasons),
        bits=_listed(verdicts.bits[order]),
    )


def _ordered(attempt: AttemptResult, values: Ints, order: Rows) -> tuple[int, ...]:
    """Numbers of the scored rows as numbers of all nodes in the search order."""
    every: Ints = np.zeros(len(order), np.int64)
    every[attempt.scored] = values
    return _listed(every[order])


def _listed(values: NDArray[Any]) -> tuple[int, ...]:
    return tuple(values.astype(np.int64).tolist())


# Giving again


def _read(numbers: Sequence[int], size: int) -> Ints:
    """Numbers as they were noted; ValueError if they are not one for each node, or none."""
    values: Ints = np.array(numbers, np.int64) if numbers else np.zeros(size, np.int64)
    if len(values) != size:
        raise ValueError(f"an answer about {len(values)} of {size} nodes")
    return values


class RecordedPlugin(
    PreFilterPlugin[None],
    FilterPlugin[None],
    PreScorePlugin[None],
    ScorePlugin[None],
    QueueSortPlugin,
):
    """Stands in for a plugin: says about one pod what the plugin said, and nothing about others."""

    row_local = False

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.uid = ""
        self.answer: RecordedAnswer | None = None
        self.order: Rows = np.zeros(0, np.intp)
        self._scored: Rows = self.order

    def recall(self, uid: str, answer: RecordedAnswer | None, order: Rows) -> None:
        """From now on give this answer about a pod; ValueError if it does not fit the nodes."""
        self.uid, self.answer, self.order = uid, answer, order
        if answer is not None:
            for numbers in (answer.bits, answer.raw, answer.normalized):
                _read(numbers, len(order))

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[None] | Skip | Status:
        answer = self._about(pod)
        if answer is None or answer.skipped:
            return SKIP
        if answer.status is not None:
            code, reasons = answer.status
            return Status(Code(code), reasons)
        return PreFilterResult(None, None if answer.nodes is None else frozenset(answer.nodes))

    def filter(self, pod: Pod, nodes: NodeView, state: None) -> Verdicts:
        answer = self._about(pod)
        reasons = () if answer is None else tuple(Reason(t, Code(c)) for t, c in answer.reasons)
        verdicts = Verdicts(len(nodes), reasons)
        if answer is not None and reasons:
            verdicts.bits[:] = self._by_row(answer.bits)[nodes.rows]
        return verdicts

    def pre_score(self, pod: Pod, nodes: NodeView) -> Skip | None:
        answer = self._about(pod)
        return SKIP if answer is None or answer.unscored else None

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        answer = self._about(pod)
        self._scored = nodes.rows
        if answer is None:
            return np.zeros(len(nodes), np.int64)
        return self._by_row(answer.raw)[nodes.rows]

    def normalize(self, scores: Ints, state: None) -> Ints:
        """As recorded, about the nodes that were just scored."""
        if self.answer is None:
            return scores
        return self._by_row(self.answer.normalized)[self._scored]

    def sort_key(self, pod: Pod, timestamp: float) -> Any:
        """Nobody sorts by it."""
        return timestamp

    def _about(self, pod: Pod) -> RecordedAnswer | None:
        return self.answer if pod.uid == self.uid else None

    def _by_row(self, numbers: Sequence[int]) -> Ints:
        values: Ints = np.zeros(len(self.order), np.int64)
        values[self.order] = _read(numbers, len(self.order))
        return values


def recorded_plugin(name: str, handle: Handle) -> RecordedPlugin:
    """A stand-in for the plugin of a name."""
    kind: type[RecordedPlugin] = type(name, (RecordedPlugin,), {"name": name})
    return kind(None, handle)


class RecordedExtender(Extender):
    """Stands in for an extender: says about one pod what the extender said."""

    def __init__(
        self,
        settings: ExtenderSettings,
        uid: str,
        reply: FilterReply | None,
        points: Mapping[str, int] | None,
    ) -> None:
        self.name, self.weight = settings.name, settings.weight
        self.filters, self.prioritizes = settings.filters, settings.prioritizes
        self._uid = uid
        self._reply = reply
        self._points = points

    def is_interested(self, pod: Pod) -> bool:
        return pod.uid == self._uid and (self._reply is not None or self._points is not None)

    def filter(self, pod: Pod, nodes: Sequence[Node]) -> FilterReply:
        """As recorded; what was asked about then may be less than now."""
        known = {node.name for node in nodes}
        if self._reply is None:
            return FilterReply(tuple(node.name for node in nodes))
        return msgspec.structs.replace(
            self._reply,
            names=tuple(name for name in self._reply.names if name in known),
            failed={name: text for name, text in self._reply.failed.items() if name in known},
            unresolvable={n: text for n, text in self._reply.unresolvable.items() if n in known},
        )

    def prioritize(self, pod: Pod, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        return [(node.name, (self._points or {}).get(node.name, 0)) for node in nodes]


def recorded_extenders(
    settings: Sequence[ExtenderSettings],
    uid: str,
    answers: Sequence[RecordedAnswer],
    names: Sequence[str],
) -> Iterator[RecordedExtender]:
    """Stand-ins for all extenders; `names` are the nodes in the search order."""
    given = {answer.name: answer for answer in answers}
    together = given.get(EXTENDERS)
    for one in settings:
        own, reply, points = given.get(one.name), None, None
        if together is not None and one.filters:
            # They were asked one after the other: what all of them left is the first one's answer.
            reply, together = _reply(together, names), None
        if own is not None:
            points = dict(zip(names, _read(own.raw, len(names)).tolist(), strict=True))
        yield RecordedExtender(one, uid, reply, points)


def _reply(answer: RecordedAnswer, names: Sequence[str]) -> FilterReply:
    bits = _read(answer.bits, len(names)).tolist()
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for name, mask in zip(names, bits, strict=True):
        for place, (text, code) in enumerate(answer.reasons):
            if mask >> place & 1:
                (unresolvable if code == Code.UNRESOLVABLE.value else failed)[name] = text
    return FilterReply(answer.nodes or (), answer.status is not None, failed, unresolvable)
