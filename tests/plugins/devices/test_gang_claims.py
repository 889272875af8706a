"""Claims of a gang's pods: promised, all of them taken back, and promised again."""

import pytest

from moorage.cluster.view import NodeView
from moorage.config.feature_gates import FeatureGates
from moorage.framework.plugin import PreFilterResult
from moorage.model.pod import Pod
from moorage.plugins.dynamic_resources import DynamicResources
from moorage.testing import cluster, make_node
from plugins.devices.device_objects import (
    claim,
    device,
    device_class,
    plugin,
    pod_with,
    slice_of,
)

GATES = FeatureGates({"GenericWorkload": True})


def _member(number: int) -> Pod:
    group = {"podGroupName": "gang"}
    return pod_with(f"c{number}", name=f"pod-{number}", schedulingGroup=group)


def _try(asked: DynamicResources, pod: Pod, nodes: NodeView, node: str) -> None:
    before = asked.pre_filter(pod, nodes)
    assert isinstance(before, PreFilterResult)
    asked.filter(pod, nodes, before.state)
    assert asked.reserve(pod, node) is None


@pytest.mark.parametrize("last_try", ["n0", "n1"])
def test_every_pod_gets_again_what_it_was_promised_there(last_try: str) -> None:
    pods = [_member(0), _member(1)]
    state = cluster(
        [make_node("n0"), make_node("n1")],
        others=[
            device_class(),
            *(slice_of(n, [device("d0"), device("d1")], node=n) for n in ("n0", "n1")),
            *(claim(f"c{i}") for i in range(2)),
        ],
    )
    asked = plugin(state.listers, GATES)
    nodes = NodeView(state)
    # Two placements are tried, and the first of them is taken in the end.
    for node in ("n1", "n0") if last_try == "n0" else ("n0", "n1"):
        for pod in pods:
            _try(asked, pod, nodes, node)
        for pod in reversed(pods):
            asked.unreserve(pod, node)
        assert not asked.tracker.usage.dedicated
    for pod in pods:
        assert asked.reserve(pod, "n0") is None
    assert set(asked.tracker.usage.dedicated) == {
        ("gpu.example.com", "n0", "d0"),
        ("gpu.example.com", "n0", "d1"),
    }
