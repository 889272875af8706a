"""Pods as they count with the gates for pod-level resources off.

Upstream leaves the fields out wherever it adds requests up. Here they are taken off once, when a
pod comes in, so that nothing behind that has to know the gates.
"""

from collections.abc import Callable

import msgspec

from moorage.config.feature_gates import FeatureGates
from moorage.model.pod import Pod

Adjust = Callable[[Pod], Pod]


def pod_level_adjustment(gates: FeatureGates) -> Adjust | None:
    """What is to be done to every pod that comes in; None for nothing, as by default."""
    if not gates.enabled("PodLevelResources"):
        return _without_pod_level
    if not gates.enabled("InPlacePodLevelResourcesVerticalScaling"):
        return _without_pod_level_status
    return None


def _without_pod_level(pod: Pod) -> Pod:
    if pod.spec.resources is not None:
        spec = msgspec.structs.replace(pod.spec, resources=None)
        pod = msgspec.structs.replace(pod, spec=spec)
    return _without_pod_level_status(pod)


def _without_pod_level_status(pod: Pod) -> Pod:
    """What a resize is to bring counts; what the node has given so far does not."""
    if pod.status.resources is None:
        return pod
    status = msgspec.structs.replace(pod.status, resources=None, allocated_resources={})
    return msgspec.structs.replace(pod, status=status)
