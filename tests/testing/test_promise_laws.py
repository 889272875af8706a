"""check_plugin: promises that spare questions, kept and broken, each named by a clear sentence."""

from collections.abc import Hashable

import numpy as np
import pytest

from moorage.cluster.columns import Bools, Ints
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.plugin import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.scores import Scale, ScoreDigest, Way
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.model.pod import Pod
from moorage.testing import LawBrokenError, check_plugin

CROWDED = Reason("node(s) were crowded")


class Steady(PreFilterPlugin[int], FilterPlugin[int], PreScorePlugin[int], ScorePlugin[int]):
    """Refuses busy nodes to unimportant pods, and keeps all its promises."""

    name = "Steady"
    reads = (Aspect.PODS,)
    steady = True
    keyed_by_spec = True

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.priority

    def idle_for(self, pod: Pod) -> bool:
        return pod.priority >= 100

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[int] | Skip | Status:
        return SKIP if pod.priority >= 100 else PreFilterResult(2 + pod.priority // 10)

    def filter(self, pod: Pod, nodes: NodeView, state: int | None) -> Verdicts:
        assert state is not None
        return Verdicts(len(nodes)).reject(nodes.pod_count > state, CROWDED)

    def refused(self, pod: Pod, nodes: NodeView, state: int | None) -> Bools:
        assert state is not None
        return nodes.pod_count > state

    def refuses(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> bool:
        assert state is not None
        return int(nodes.pod_count[row]) > state

    def pre_score(self, pod: Pod, nodes: NodeView) -> int | Skip:
        return SKIP if pod.priority >= 100 else 10

    def score(self, pod: Pod, nodes: NodeView, state: int | None) -> Ints:
        assert state is not None
        return np.minimum(nodes.pod_count * state, 100)

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> int:
        assert state is not None
        return min(int(nodes.pod_count[row]) * state, 100)


class RefusedTooFew(Steady):
    name = "RefusedTooFew"

    def refused(self, pod: Pod, nodes: NodeView, state: int | None) -> Bools:
        return np.zeros(len(nodes), np.bool_)


class RefusesTheNextRow(Steady):
    name = "RefusesTheNextRow"

    def refuses(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> bool:
        return super().refuses(pod, nodes, (row + 1) % len(nodes), state)


class ScoresARowWithoutALimit(Steady):
    name = "ScoresARowWithoutALimit"

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> int:
        return 11 * int(nodes.pod_count[row])


class SilentThoughItScores(Steady):
    name = "SilentThoughItScores"

    def is_silent(self, pod: Pod, nodes: NodeView) -> bool:
        return True


class NormalizesInPlaceUnstated(Steady):
    name = "NormalizesInPlaceUnstated"
    normalizes_in_place = False

    def normalize(self, scores: Ints, state: int | None) -> Ints:
        scores //= 2
        return scores


class Digested(PreScorePlugin[ScoreDigest], ScorePlugin[ScoreDigest]):
    """Prefers some zones, and says so in short."""

    name = "Digested"
    reads = (Aspect.LABELS,)
    row_local = False

    def pre_score(self, pod: Pod, nodes: NodeView) -> ScoreDigest | Skip:
        zones = nodes.whole.label("topology.kubernetes.io/zone")
        table = np.arange(len(zones.vocabulary)) % 3
        scale = Scale(Way.STRETCH, 0, 4)
        labelled = nodes.stamps.latest(Aspect.LABELS)
        return ScoreDigest(scale=scale, table=table, codes=zones.codes, labelled=labelled)

    def score(self, pod: Pod, nodes: NodeView, state: ScoreDigest | None) -> Ints:
        return nodes.label("topology.kubernetes.io/zone").codes.astype(np.int64) % 3

    def normalize(self, scores: Ints, state: ScoreDigest | None) -> Ints:
        return scores * 25


class DigestOfOtherScores(Digested):
    name = "DigestOfOtherScores"

    def score(self, pod: Pod, nodes: NodeView, state: ScoreDigest | None) -> Ints:
        return nodes.label("topology.kubernetes.io/zone").codes.astype(np.int64) % 2


class DigestOfAnotherScale(Digested):
    name = "DigestOfAnotherScale"

    def normalize(self, scores: Ints, state: ScoreDigest | None) -> Ints:
        return scores * 20


class IdleThoughItRefuses(Steady):
    name = "IdleThoughItRefuses"

    def idle_for(self, pod: Pod) -> bool:
        return True


class IdleThoughPreFilterRefuses(Steady):
    name = "IdleThoughPreFilterRefuses"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[int] | Skip | Status:
        if pod.priority >= 100:
            return Status(Code.UNSCHEDULABLE, ("too important",))
        return super().pre_filter(pod, nodes)


class IdleThoughPreFilterNamesNodes(Steady):
    name = "IdleThoughPreFilterNamesNodes"

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[int] | Skip | Status:
        if pod.priority >= 100:
            return PreFilterResult(1000, frozenset({"node-1"}))
        return super().pre_filter(pod, nodes)


class IdleThoughItScores(ScorePlugin[None]):
    name = "IdleThoughItScores"

    def idle_for(self, pod: Pod) -> bool:
        return True

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        return np.minimum(nodes.pod_count, 100)


class PreparesFromNodes(Steady):
    """Scores count in relation to the busiest node at the time of the first pod."""

    name = "PreparesFromNodes"

    def pre_score(self, pod: Pod, nodes: NodeView) -> int | Skip:
        return int(nodes.pod_count.max())

    def score(self, pod: Pod, nodes: NodeView, state: int | None) -> Ints:
        return nodes.pod_count

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> int:
        return int(nodes.pod_count[row])

    def normalize(self, scores: Ints, state: int | None) -> Ints:
        assert state is not None
        return np.minimum(scores * 100 // max(state, 1), 100)

    def idle_for(self, pod: Pod) -> bool:
        return False


class SkipsByTheCluster(Steady):
    name = "SkipsByTheCluster"

    def pre_score(self, pod: Pod, nodes: NodeView) -> int | Skip:
        return SKIP if int(nodes.pod_count.sum()) % 2 else 10

    def idle_for(self, pod: Pod) -> bool:
        return False


class NormalizesByThePod(Steady):
    """Pods with equal keys, other states: raw scores agree, what they come to does not."""

    name = "NormalizesByThePod"

    def pre_score(self, pod: Pod, nodes: NodeView) -> int | Skip:
        return 10 + len(pod.name) % 2

    def score(self, pod: Pod, nodes: NodeView, state: int | None) -> Ints:
        return np.minimum(nodes.pod_count, 5)

    def score_row(self, pod: Pod, nodes: NodeView, row: int, state: int | None) -> int:
        return min(int(nodes.pod_count[row]), 5)

    def normalize(self, scores: Ints, state: int | None) -> Ints:
        assert state is not None
        return scores * state

    def idle_for(self, pod: Pod) -> bool:
        return False


class KeyedByName(Steady):
    name = "KeyedByName"

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.priority, pod.name


class IdleByUid(Steady):
    name = "IdleByUid"

    def idle_for(self, pod: Pod) -> bool:
        return pod.priority >= 100 and not pod.uid.endswith("twin")


class KeyedByLabels(Steady):
    """Right for twins, but it claims to look at the spec alone."""

    name = "KeyedByLabels"

    def pod_key(self, pod: Pod) -> Hashable:
        return pod.priority, pod.labels.get("app")


def test_promises_that_are_kept_pass() -> None:
    check_plugin(Steady)


@pytest.mark.parametrize(
    ("plugin", "complaint"),
    [
        (RefusedTooFew, r"refused of pod \S+ says no of \S+, but filter says yes"),
        (RefusesTheNextRow, r"refuses of pod \S+ says (no|yes) of \S+, but filter says (yes|no)"),
        (ScoresARowWithoutALimit, r"score_row of pod \S+ says \d+ of \S+, but score says \d+"),
        (SilentThoughItScores, r"is_silent says that all scores of pod \S+ are 0, but they are"),
        (
            NormalizesInPlaceUnstated,
            r"normalize changed the scores of pod \S+ it was given, although",
        ),
        (DigestOfOtherScores, r"DigestOfOtherScores: digest .* score"),
        (DigestOfAnotherScale, r"DigestOfAnotherScale: digest .* normalize"),
        (IdleThoughItRefuses, r"nothing to say about pod \S+, but filter says \['node\(s\) were"),
        (IdleThoughPreFilterRefuses, r"nothing to say about pod \S+, but pre_filter refuses the"),
        (
            IdleThoughPreFilterNamesNodes,
            r"nothing to say about pod \S+, but pre_filter names nodes",
        ),
        (IdleThoughItScores, r"nothing to say about pod \S+, but its nodes score \["),
        (PreparesFromNodes, r"score of pod \S+ says .* with what was prepared for"),
        (SkipsByTheCluster, r"pre_score of pod \S+ (skips|looks at nodes), but it (looks|skips)"),
        (NormalizesByThePod, r"score of pod \S+ says .*normalised .* which has the same key"),
        (KeyedByName, r"pod_key gives .* which differs from it in nothing but name, uid, version"),
        (IdleByUid, r"idle_for says True of pod \S+, but False of pod \S+-twin, which differs"),
        (KeyedByLabels, r"pod_key gives .* which has the same spec and status \(keyed_by_spec\)"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_broken_promise_is_found_and_named(plugin: type[Plugin], complaint: str) -> None:
    with pytest.raises(LawBrokenError, match=complaint) as broken:
        check_plugin(plugin)
    assert str(broken.value).startswith(f"{plugin.name}: ")
