"""Where two schedulers part: the first decision that differs, and which plugin made the difference.

Up to it both clusters are the same, so what differs in the scores is the configurations' doing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from moorage.controllers.objects import Json, meta, spec
from moorage.engine.recording import DecisionRecorder, EndedAttempt
from moorage.explain.scores import Scored
from moorage.framework.attempt import AttemptResult
from moorage.framework.diagnosis import decisive_rows
from moorage.scenarios.quality.statistics import short
from moorage.scenarios.simulation import Simulation


class PlacedPod(NamedTuple):
    """A pod got a node."""

    seconds: float
    pod: str
    node: str


class PlacedPods:
    """Follows a run, and keeps what was placed where, in that order."""

    def __init__(self, run: Simulation) -> None:
        self._run = run
        self.made: list[PlacedPod] = []
        run.api.followers.append(self._changed)

    def _changed(self, before: Json | None, after: Json | None) -> None:
        if after is None or after["kind"] != "Pod" or not spec(after).get("nodeName"):
            return
        if before is None or not spec(before).get("nodeName"):
            key = f"{meta(after)['namespace']}/{meta(after)['name']}"
            self.made.append(PlacedPod(self._run.elapsed, key, spec(after)["nodeName"]))


class Parting(NamedTuple):
    """The first decision that differs; a node is None where the pod got none then."""

    seconds: float
    pod: str
    nodes: tuple[str | None, str | None]


def parting(one: Sequence[PlacedPod], other: Sequence[PlacedPod]) -> Parting | None:
    """Where two runs part, if they do."""
    for a, b in zip(one, other, strict=False):
        if a == b:
            continue
        if a.pod == b.pod and a.seconds == b.seconds:
            return Parting(a.seconds, a.pod, (a.node, b.node))
        return _alone(a, first=True) if a.seconds <= b.seconds else _alone(b, first=False)
    if len(one) != len(other):
        longer = one if len(one) > len(other) else other
        return _alone(longer[min(len(one), len(other))], first=longer is one)
    return None


def _alone(made: PlacedPod, *, first: bool) -> Parting:
    nodes = (made.node, None) if first else (None, made.node)
    return Parting(made.seconds, made.pod, nodes)


def counted_differences(one: Sequence[PlacedPod], other: Sequence[PlacedPod]) -> Json:
    """How many pods of the same name got another node."""
    nodes = {made.pod: made.node for made in one}
    both = [made for made in other if made.pod in nodes]
    return {
        "placedByBoth": len(both),
        "elsewhere": sum(nodes[made.pod] != made.node for made in both),
    }


class AttemptNotes(DecisionRecorder):
    """Notes what plugins said of some nodes when a pod was tried last."""

    def __init__(self, pod: str, nodes: Sequence[str]) -> None:
        super().__init__()
        self._pod, self._nodes = pod, nodes
        self.scores: Mapping[str, Mapping[str, int]] = {}
        """By node and plugin, weighted; only of nodes that passed the filters."""
        self.rejected_by: Mapping[str, str] = {}
        """By node, the plugin that was first to refuse it."""

    def attempt_ended(self, ended: EndedAttempt) -> None:
        attempt = ended.attempt
        if ended.pod.key == self._pod and attempt is not None:
            self.scores = _scores(attempt, self._nodes)
            self.rejected_by = _refusals(attempt, self._nodes)


def _scores(attempt: AttemptResult, nodes: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    if attempt.scores is None or attempt.scored is None:
        return {}
    scored = Scored(attempt.nodes, attempt.scored, attempt.scores)
    found: dict[str, Mapping[str, int]] = {}
    for name in nodes:
        row = attempt.nodes.row_of(name)
        place = None if row is None else scored.place_of(row)
        if place is not None:
            found[name] = {part.plugin: part.weighted for part in scored.parts(place)}
    return found


def _refusals(attempt: AttemptResult, nodes: Sequence[str]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    if attempt.outcome is not None:
        for plugin, rows, _ in decisive_rows(attempt.outcome):
            for name in nodes:
                row = attempt.nodes.row_of(name)
                if row is not None and rows[row]:
                    found[name] = plugin
    return found


Replay = Callable[[int, float, Callable[[Simulation], None]], None]
"""Plays the first (0) or the second (1) scheduler again, up to a time; for `Watch` see `runs`."""


def explained_parting(names: tuple[str, str], where: Parting, replay: Replay) -> Json:
    """The first decision that differs, with what both schedulers' plugins say of both nodes."""
    nodes = [node for node in where.nodes if node is not None]
    notes = (AttemptNotes(where.pod, nodes), AttemptNotes(where.pod, nodes))
    for number, note in enumerate(notes):

        def watch(run: Simulation, note: AttemptNotes = note) -> None:
            run.engine.record(note)

        replay(number, where.seconds, watch)
    return {
        "seconds": short(where.seconds),
        "pod": where.pod,
        "nodes": dict(zip(names, where.nodes, strict=True)),
        "plugin": _decisive(where, notes),
        "scores": {name: dict(note.scores) for name, note in zip(names, notes, strict=True)},
        "rejectedBy": {
            name: dict(note.rejected_by) for name, note in zip(names, notes, strict=True)
        },
    }


def _decisive(where: Parting, notes: tuple[AttemptNotes, AttemptNotes]) -> str | None:
    """The plugin that refused the other's node, or whose scores changed most in its favour."""
    for own, other in ((0, 1), (1, 0)):
        node = where.nodes[other]
        if node is not None and node in notes[own].rejected_by:
            return notes[own].rejected_by[node]
    a, b = where.nodes
    if a is None or b is None:
        return None
    first, second = (_lead(note.scores, a, b) for note in notes)
    shifts = {name: first.get(name, 0) - second.get(name, 0) for name in {**first, **second}}
    # Of equal shifts the first by name.
    best = max(sorted(shifts), key=lambda name: shifts[name], default=None)
    return best if best is not None and shifts[best] > 0 else None


def _lead(scores: Mapping[str, Mapping[str, int]], a: str, b: str) -> Mapping[str, int]:
    """By how much each plugin prefers one node to the other."""
    if a not in scores or b not in scores:
        return {}
    return {plugin: scores[a][plugin] - scores[b][plugin] for plugin in scores[a]}
