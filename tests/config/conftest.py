"""What the tests of the configuration share: where the plugins of kube-scheduler 1.37 run."""

import pytest

from moorage.config.plugins import Implements
from moorage.config.types import ExtensionPoint

# Recorded from kube-scheduler v1.37.1 with the gates of gang and topology-aware scheduling on.
_POINTS = {
    "DefaultBinder": "bind",
    "DefaultPreemption": "preEnqueue postFilter podGroupPostFilter",
    "DeferredPodScheduling": "preFilter filter permit",
    "DynamicResources": (
        "preEnqueue preFilter filter postFilter score reserve preBind podGroupPostFilter"
    ),
    "GangScheduling": "preEnqueue permit",
    "ImageLocality": "score",
    "InterPodAffinity": "preFilter filter preScore score",
    "NodeAffinity": "preFilter filter preScore score",
    "NodeDeclaredFeatures": "preFilter filter",
    "NodeName": "preFilter filter",
    "NodePorts": "preFilter filter",
    "NodeResourcesBalancedAllocation": "preScore score",
    "NodeResourcesFit": "preFilter filter preScore score placementScore",
    "NodeUnschedulable": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "PodGroupPodsCount": "placementScore",
    "PodTopologySpread": "preFilter filter preScore score",
    "PrioritySort": "queueSort",
    "SchedulingGates": "preEnqueue",
    "TaintToleration": "preFilter filter preScore score",
    "TopologyPlacementGenerator": "placementGenerate",
    "VolumeBinding": "preFilter filter preScore score reserve preBind",
    "VolumeRestrictions": "preFilter filter",
    "VolumeZone": "preFilter filter",
}


@pytest.fixture(scope="session")
def in_tree() -> Implements:
    """The predicate of the plugins that ship with kube-scheduler."""

    def implements(name: str, point: ExtensionPoint) -> bool:
        return point.value in _POINTS.get(name, "").split()

    return implements
