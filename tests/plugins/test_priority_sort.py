"""PrioritySort: important pods first, then the ones that have waited longest."""

import pytest

from framework.building import make_plugin
from moorage.plugins.priority_sort import PrioritySort
from reference.objects import make_pod


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((10, 5.0), (1, 5.0)),
        ((10, 9.0), (1, 5.0)),
        ((1, 5.0), (1, 9.0)),
        ((None, 5.0), (-1, 5.0)),
        ((1, 5.0), (None, 5.0)),
    ],
    ids=[
        "the more important",
        "even if it came later",
        "of equals the one that came first",
        "no priority is zero",
        "which is less than one",
    ],
)
def test_pods_are_tried_in_this_order(
    first: tuple[int | None, float], second: tuple[int | None, float]
) -> None:
    plugin = make_plugin(PrioritySort)
    keys = [plugin.sort_key(make_pod("p", priority=p), time) for p, time in (first, second)]
    assert keys[0] < keys[1]
