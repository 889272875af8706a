"""Placements of a run, beside those of the recording that it plays.

The run goes on by itself, so once a pod is elsewhere the clusters are not the same any more: what
differs after that follows from it, unless it is a tie.
"""

from collections import Counter
from collections.abc import Mapping

import msgspec

from moorage.controllers.objects import Json
from moorage.engine.recording import EndedAttempt, PassingRecorder
from moorage.recordings.comparison import Agreement, compared_nodes
from moorage.scenarios.quality.statistics import short
from moorage.scenarios.simulation import Simulation

_FOLLOWS = "follows"
_KINDS = (*(one.value for one in Agreement), _FOLLOWS)


class PlacedElsewhere(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that goes elsewhere than in the recording."""

    seconds: float
    pod: str
    recorded: str
    ours: str
    agreement: str
    """`tie`, `different`, or `follows`: from a decision before it."""
    plugin: str
    """Who speaks most against the recorded node."""
    message: str


class RecordedDecisions(PassingRecorder):
    """Follows a run, and compares each placement with the recorded one."""

    def __init__(self, run: Simulation, nodes: Mapping[str, str]) -> None:
        """`nodes`: by uid of the pods, where they went in the recording."""
        super().__init__(run.engine.recorder)
        self._run = run
        self._nodes = nodes
        self._parted = False
        self._counts = Counter[str]()
        self._differences: list[PlacedElsewhere] = []
        run.engine.record(self)

    def attempt_ended(self, ended: EndedAttempt) -> None:
        """Compare where the pod goes, if it goes anywhere."""
        super().attempt_ended(ended)
        if ended.failure is not None or ended.placed is None or ended.attempt is None:
            return
        node = self._nodes.get(ended.pod.uid)
        if node is None:
            self._parted = True
            return
        found = compared_nodes(ended.attempt, node, ended.placed.node_name)
        agreement = found.agreement.value
        if found.agreement is Agreement.DIFFERENT and self._parted:
            agreement = _FOLLOWS
        self._counts[agreement] += 1
        if found.agreement is not Agreement.SAME:
            self._parted = True
            self._differences.append(
                PlacedElsewhere(
                    seconds=short(self._run.elapsed),
                    pod=ended.pod.key,
                    recorded=node,
                    ours=found.ours,
                    agreement=agreement,
                    plugin=found.plugin,
                    message=found.message,
                )
            )

    def result(self) -> Json:
        """How many placements are the recorded ones, and all that are not."""
        counts = {kind: self._counts[kind] for kind in _KINDS}
        return {**counts, "differences": msgspec.to_builtins(self._differences)}
