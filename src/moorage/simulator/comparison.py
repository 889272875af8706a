"""Two decisions compared field by field: what was recorded, and what we make of it.

Owns which fields count as equal when. Every field present in `expect` is compared; a difference is
cut down to the nodes and plugins that differ, so that it can be read.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from moorage.model.meta import Json

# Upstream lists the scalar resources of this plugin's reasons in Go's random map order.
_UNORDERED_REASONS = "NodeResourcesFit"
# Upstream leaves these out when empty, so absence is a statement.
_EMPTY_WHEN_ABSENT: Mapping[str, Any] = {"clearsNomination": False, "victims": {}, "candidates": {}}


class Disagreement(msgspec.Struct, frozen=True):
    """One field in which a case differs."""

    case: str
    field: str
    expected: Any
    actual: Any


def compare(case: str, expect: Json, actual: Json) -> list[Disagreement]:
    """Where `actual` (as `replay` describes a decision) departs from the recorded one."""
    found = []
    for field, recorded in expect.items():
        expected, ours = recorded, actual.get(field)
        if field == "filter":
            expected, ours = _sorted_reasons(expected), _sorted_reasons(ours)
        elif field == "postFilter" and isinstance(expected, dict):
            expected, ours = _comparable_post_filter(expected, ours)
        elif field == "error" and expected in (actual.get("errors") or ()):
            # Of several failing nodes upstream reports the one that failed first in time.
            continue
        if expected != ours:
            found.append(Disagreement(case, field, *_differing(expected, ours)))
    if "error" not in expect and actual.get("error"):
        found.append(Disagreement(case, "error", None, actual["error"]))
    return found


def _sorted_reasons(statuses: Any) -> Any:
    if not isinstance(statuses, dict):
        return statuses
    return {
        node: {**status, "reasons": sorted(status["reasons"])}
        if status["plugin"] == _UNORDERED_REASONS
        else status
        for node, status in statuses.items()
    }


def _comparable_post_filter(expected: Json, ours: Any) -> tuple[Json, Any]:
    expected = {**_EMPTY_WHEN_ABSENT, **expected}
    if not isinstance(ours, dict):
        return expected, ours
    ours = {**_EMPTY_WHEN_ABSENT, **ours}
    return expected, {key: value for key, value in ours.items() if key in expected}


def _differing(expected: Any, actual: Any) -> tuple[Any, Any]:
    """Both sides without what they agree on; a missing entry becomes None."""
    if not (isinstance(expected, dict) and isinstance(actual, dict)):
        return expected, actual
    left: Json = {}
    right: Json = {}
    for key in [*expected, *(key for key in actual if key not in expected)]:
        if (key in expected) != (key in actual) or expected[key] != actual[key]:
            left[key], right[key] = _differing(expected.get(key), actual.get(key))
    return left, right
