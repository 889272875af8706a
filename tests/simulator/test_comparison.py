"""Recorded and actual decisions compared: no difference may go unnoticed."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.simulator.conformance import compare

GOLDEN = Path(__file__).parent.parent / "parity" / "golden"


def recorded(family: str, field: str) -> dict[str, Any]:
    """The first recorded decision of a family in which a field says something."""
    with gzip.open(GOLDEN / f"{family}.jsonl.gz") as lines:
        for line in lines:
            expect: dict[str, Any] = json.loads(line)["expect"]
            if expect.get(field):
                return expect
    raise LookupError(field)


def changed(value: Any) -> Any:
    """A value of the same shape with one leaf changed."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "!"
        case dict():
            key = next(iter(value))
            return {**value, key: changed(value[key])}
        case list():
            return [*value[:-1], changed(value[-1])] if value else ["new"]
    raise TypeError(value)


@pytest.mark.parametrize(
    ("family", "field"),
    [
        ("gates-features", "preEnqueue"),
        ("node-affinity", "preFilter"),
        ("node-affinity", "preFilterNodes"),
        ("taints", "filter"),
        ("taints", "feasible"),
        ("taints", "scores"),
        ("taints", "skippedFilterPlugins"),
        ("taints", "skippedScorePlugins"),
        ("taints", "best"),
        ("taints", "fitError"),
        ("taints", "unschedulablePlugins"),
        ("taints", "postFilter"),
        ("preemption", "nominatedShortcut"),
    ],
)
def test_a_change_in_any_field_is_noticed(family: str, field: str) -> None:
    expect = recorded(family, field)
    assert compare("case", expect, copy.deepcopy(expect)) == []
    actual = {**expect, field: changed(expect[field])}
    assert [found.field for found in compare("case", expect, actual)] == [field]
    del actual[field]
    assert [found.field for found in compare("case", expect, actual)] == [field]


@pytest.mark.parametrize("part", ["code", "nominatedNode", "victims", "candidates"])
def test_every_part_of_post_filter_counts(part: str) -> None:
    expect = recorded("preemption", "postFilter")
    assert part in expect["postFilter"]
    post_filter = {**expect["postFilter"], part: changed(expect["postFilter"][part])}
    (found,) = compare("case", expect, {**expect, "postFilter": post_filter})
    assert list(found.expected) == [part]


def test_what_post_filter_leaves_out_is_empty() -> None:
    expect = {"postFilter": {"code": "Success", "reasons": [], "nominatedNode": "a"}}
    ours = {**expect["postFilter"], "plugin": "DefaultPreemption", "clearsNomination": False}
    full = {**ours, "victims": {}, "candidates": {}}
    assert compare("case", expect, {"postFilter": full}) == []
    (found,) = compare("case", expect, {"postFilter": {**full, "clearsNomination": True}})
    assert (found.expected, found.actual) == (
        {"clearsNomination": False},
        {"clearsNomination": True},
    )


def test_a_difference_is_cut_down_to_what_differs() -> None:
    expect = {"scores": {"a": {"total": 3, "raw": {"X": 1, "Y": 2}}, "b": {"total": 1, "raw": {}}}}
    actual = {"scores": {"a": {"total": 3, "raw": {"X": 1, "Y": 9}}, "c": {"total": 1, "raw": {}}}}
    (found,) = compare("case", expect, actual)
    assert found.expected == {"a": {"raw": {"Y": 2}}, "b": {"total": 1, "raw": {}}, "c": None}
    assert found.actual == {"a": {"raw": {"Y": 9}}, "b": None, "c": {"total": 1, "raw": {}}}


def test_only_resource_reasons_may_come_in_any_order() -> None:
    def refusal(plugin: str, *reasons: str) -> dict[str, Any]:
        return {"filter": {"a": {"plugin": plugin, "code": "Unschedulable", "reasons": [*reasons]}}}

    fit, other = "NodeResourcesFit", "NodePorts"
    assert compare("case", refusal(fit, "x", "y"), refusal(fit, "y", "x")) == []
    assert compare("case", refusal(fit, "x", "x"), refusal(fit, "x"))
    assert compare("case", refusal(other, "x", "y"), refusal(other, "y", "x"))


def test_any_error_of_a_node_matches_the_recorded_one() -> None:
    expect = {"error": "second"}
    assert compare("case", expect, {"error": "x", "errors": ["first", "second"]}) == []
    assert compare("case", expect, {"error": "x", "errors": ["first"]})
    assert compare("case", expect, {})
    (found,) = compare("case", {}, {"error": "boom"})
    assert (found.field, found.actual) == ("error", "boom")
