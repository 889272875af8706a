"""Decisions on the short way are counted as those of the plain path are, whoever looks when."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metrics.measuring import Measured, nonzero
from moorage.model.pod import Pod
from moorage.testing import make_node, make_pod
from properties.harness import effort

COUNTED = (
    "scheduler_framework_extension_point_duration_seconds_count",
    "scheduler_plugin_evaluation_total",
    "scheduler_scheduling_algorithm_duration_seconds_count",
    "scheduler_schedule_attempts_total",
)
LOOK = "look at the metrics"

_SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }
    ]
}
_NEAR = {
    "affinity": {
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 5,
                    "podAffinityTerm": {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "plain"}},
                    },
                }
            ]
        }
    }
}
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "spread": _SPREAD,
    "near": _NEAR,
    "pinned": {"nodeSelector": {"zone": "c"}},
    "nowhere": {"nodeSelector": {"zone": "z"}},
}


def _pod(number: int, kind: str) -> Pod:
    return make_pod(f"p{number}", cpu="100m", labels={"app": kind}, spec=KINDS[kind])


def _measured(*, plainly: bool) -> Measured:
    made = Measured()
    for number, zone in enumerate("aabbc"):
        made.scheduler.handlers.add_node(make_node(f"n{number}", cpu="1", labels={"zone": zone}))
    if plainly:
        made.scheduler.cycle.fast_lane = None
    return made


def _counts(measured: Measured) -> list[dict[str, float]]:
    return [nonzero(measured.values(name)) for name in COUNTED]


@effort(30)
@given(steps=st.lists(st.sampled_from([*KINDS, LOOK]), max_size=30))
def test_the_short_way_counts_like_the_plain_path(steps: list[str]) -> None:
    short, plain = _measured(plainly=False), _measured(plainly=True)
    for number, step in enumerate(steps):
        if step == LOOK:
            assert _counts(short) == _counts(plain)
            continue
        for measured in (short, plain):
            measured.scheduler.handlers.add_pod(_pod(number, step))
            measured.run()
    assert _counts(short) == _counts(plain)
