"""Decisions as kube-scheduler-simulator writes them on pods: keys, shapes, and never too large."""

import json

from hypothesis import given
from hypothesis import strategies as st

from moorage.config import DEFAULT_FEATURE_GATES, default_config
from moorage.engine.clock import VirtualClock
from moorage.explain.report import (
    DecisionExplanation,
    DecisionSummary,
    Matrix,
    NodeScores,
    NodeVerdicts,
    Rejection,
    ScorePart,
    Verdict,
)
from moorage.framework.profile import Profile
from moorage.kube.annotations import HISTORY, LIMIT, PREFIX, TOP, annotations, results, size
from moorage.kube.live import build_scheduler
from moorage.plugins.defaults import in_tree_registry

KEYS = {
    *("prefilter-result-status", "prefilter-result", "filter-result", "postfilter-result"),
    *("prescore-result", "score-result", "finalscore-result", "reserve-result", "permit-result"),
    *("permit-result-timeout", "prebind-result", "bind-result"),
}


def profile() -> Profile:
    made = build_scheduler(
        default_config(), in_tree_registry(), DEFAULT_FEATURE_GATES, VirtualClock(1e9)
    )
    return made.profiles["default-scheduler"]


def summary(result: str, node: str = "", nominated: str = "") -> DecisionSummary:
    return DecisionSummary(
        *(1, 0.0, "default/p", result, "default-scheduler", node), nominated_node=nominated
    )


def placed(nodes: int, name: str = "node-") -> DecisionExplanation:
    parts = (ScorePart("NodeResourcesFit", 80, 80, 1, 80), ScorePart("ImageLocality", 5, 5, 3, 15))
    scores = tuple(NodeScores(f"{name}{n}", 95, chosen=n == 0, parts=parts) for n in range(nodes))
    rows = (
        NodeVerdicts(
            "cordoned",
            False,
            (
                Verdict("NodeUnschedulable", "rejected", reasons=("node(s) were unschedulable",)),
                Verdict("NodeResourcesFit", "rejected", reasons=("Insufficient cpu",)),
            ),
        ),
        NodeVerdicts(
            f"{name}0",
            True,
            (Verdict("NodeUnschedulable", "ok"), Verdict("NodePorts", "skipped")),
        ),
    )
    matrix = Matrix(("NodeUnschedulable", "NodePorts"), rows, 2)
    return DecisionExplanation(
        summary("scheduled", f"{name}0"),
        "live",
        scores=scores,
        matrix=matrix,
        skipped_filter_plugins=("NodePorts",),
        skipped_score_plugins=("NodeAffinity",),
    )


def test_a_placed_pod_tells_filters_scores_and_every_later_point() -> None:
    made = results(placed(2), profile())
    found = {key.removeprefix(PREFIX): value for key, value in made.items()}
    assert set(found) == KEYS | {"selected-node"}
    assert found["selected-node"] == "node-0"
    filters = json.loads(found["filter-result"])
    # As upstream, nobody is asked about a node that somebody refused.
    assert filters["cordoned"] == {"NodeUnschedulable": "node(s) were unschedulable"}
    assert filters["node-0"]["NodeResourcesFit"] == "passed"
    assert "NodePorts" not in filters["node-0"]
    assert json.loads(found["score-result"])["node-1"] == {
        "NodeResourcesFit": "80",
        "ImageLocality": "5",
    }
    assert json.loads(found["finalscore-result"])["node-0"]["ImageLocality"] == "15"
    assert json.loads(found["bind-result"]) == {"DefaultBinder": "success"}
    assert json.loads(found["prebind-result"])["VolumeBinding"] == "success"
    assert json.loads(found["reserve-result"])["VolumeBinding"] == "success"
    assert json.loads(found["prescore-result"])["TaintToleration"] == "success"
    # As upstream: a plugin that skips gives no reason.
    assert json.loads(found["prescore-result"])["NodeAffinity"] == ""
    assert json.loads(found["prefilter-result-status"])["NodePorts"] == ""
    assert json.loads(found["prefilter-result-status"])["NodeResourcesFit"] == "success"
    assert json.loads(found["postfilter-result"]) == {}


def test_a_refused_pod_tells_who_refused_and_which_node_preemption_frees() -> None:
    rejection = Rejection("NodeAffinity", "conflicting values", 3, point="PreFilter")
    decision = summary("unschedulable", nominated="node-7")
    told = DecisionExplanation(decision, "live", rejections=(rejection,))
    found = results(told, profile())
    statuses = json.loads(found[PREFIX + "prefilter-result-status"])
    assert statuses["NodeAffinity"] == "conflicting values"
    asked = [plugin.name for plugin in profile().pre_filter]
    assert set(statuses) == set(asked[: asked.index("NodeAffinity") + 1]) < set(asked)
    assert json.loads(found[PREFIX + "postfilter-result"]) == {
        "node-7": {"DefaultPreemption": "preemption victim"}
    }
    assert PREFIX + "selected-node" not in found
    for key in ("filter-result", "score-result", "bind-result", "prescore-result"):
        assert json.loads(found[PREFIX + key]) == {}


def test_only_the_best_nodes_are_told() -> None:
    found = results(placed(5000), profile())
    assert len(json.loads(found[PREFIX + "score-result"])) == TOP
    assert len(json.loads(found[PREFIX + "filter-result"])) <= 2 * TOP


def test_earlier_attempts_stay_in_the_history_the_latest_last() -> None:
    first = results(DecisionExplanation(summary("unschedulable"), "live"), profile())
    once = annotations(first, {"mine": "stays"})
    assert once is not None
    assert "mine" not in once
    assert annotations(first, once) is None  # nothing new
    second = results(placed(2), profile())
    twice = annotations(second, once)
    assert twice is not None
    assert json.loads(twice[HISTORY]) == [first, second]
    broken = annotations(second, {HISTORY: "not JSON"})
    assert broken is not None
    assert json.loads(broken[HISTORY]) == [second]


@given(
    st.integers(0, 12),
    st.integers(1, 253),
    st.integers(0, LIMIT),
    st.integers(1, 12),
)
def test_annotations_never_exceed_what_the_api_server_takes(
    nodes: int, length: int, others: int, attempts: int
) -> None:
    known = {"x": "y" * others}
    for number in range(attempts):
        made = results(placed(nodes, f"{number}-".ljust(length, "n")), profile_once)
        written = annotations(made, known)
        if written is not None:
            known |= written
            assert size(known) <= LIMIT
            assert json.loads(known[HISTORY])[-1:] in ([made], [])


profile_once = profile()
