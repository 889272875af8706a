"""What all policies for shared GPUs do alike: filter, reserve devices, write them down.

A policy says how good a node is for a pod and, for a pod that shares a device, which one. Of equal
nodes the one that came first is taken: pods that gather on few nodes leave others free.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.framework.cluster_events import ActionType, EventRegistration, EventResource, on
from moorage.framework.plugin import (
    MAX_NODE_SCORE,
    ApiPort,
    FilterPlugin,
    Handle,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, Code, Reason, Skip, Status, Verdicts
from moorage.gallery.gpus import (
    GPU_INDEX,
    GpuDevices,
    GpuRequest,
    device_text,
    gpu_request,
    of_model,
    tightest,
)
from moorage.model.pod import Pod

_NODES, _DEVICES = "nodes", "devices"


class GpuPolicy(
    PreFilterPlugin[GpuRequest],
    FilterPlugin[GpuRequest],
    ScorePlugin[None],
    ReservePlugin,
    PreBindPlugin,
):
    """Base of the policies."""

    reads = (Aspect.ALLOCATABLE, Aspect.LABELS, Aspect.PODS, Aspect.REQUESTED)
    wrong_model: ClassVar = Reason("node(s) had no GPU of the right model", Code.UNRESOLVABLE)
    too_little: ClassVar = Reason("Insufficient GPU")

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.devices = GpuDevices()

    def pre_filter(self, pod: Pod, nodes: NodeView) -> PreFilterResult[GpuRequest] | Skip | Status:
        """A pod without GPUs may go anywhere."""
        try:
            request = gpu_request(pod)
        except ValueError as error:
            return Status(Code.UNRESOLVABLE, (str(error),))
        if not request.count:
            return SKIP
        self.cycle_state(pod)[_NODES] = nodes.whole
        return PreFilterResult(request)

    def filter(self, pod: Pod, nodes: NodeView, state: GpuRequest | None) -> Verdicts:
        """Enough devices with enough left, of the right model."""
        request = gpu_request(pod) if state is None else state
        verdicts = Verdicts(len(nodes), (self.wrong_model, self.too_little))
        if request.models:
            verdicts.reject(~of_model(nodes, request), self.wrong_model)
        fitting = (self.devices.left(nodes) >= request.milli).sum(axis=0)
        return verdicts.reject(fitting < request.count, self.too_little)

    @abstractmethod
    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """How good each node is, larger is better."""

    def choose(self, pod: Pod, request: GpuRequest, node: NodeView) -> Sequence[int]:
        """The devices of one node that the pod gets, one of those that suffice."""
        del pod
        return tightest(self.devices.left(node)[:, 0].tolist(), request)

    def normalize(self, scores: Ints, state: None) -> Ints:
        """The first of the best nodes gets a point more than the other good ones."""
        return first_of_best(scores)

    def assumed(self, pod: Pod, node_name: str) -> Pod:
        """The pod with its devices."""
        notes = self.cycle_state(pod)
        nodes: NodeView | None = notes.pop(_NODES, None)
        row = None if nodes is None else nodes.row_of(node_name)
        if nodes is None or row is None:
            return pod
        request = gpu_request(pod)
        devices = self.choose(pod, request, nodes.take(np.array([row])))
        if len(devices) < request.count:
            return pod
        notes[_DEVICES] = text = device_text(devices)
        return with_devices(pod, text)

    def reserve(self, pod: Pod, node_name: str) -> Status | None:
        """Refuse a pod for which no devices are left, as another policy took them."""
        if gpu_request(pod).count and _DEVICES not in self.cycle_state(pod):
            return Status(Code.UNSCHEDULABLE, (self.too_little.text,))
        return None

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Nothing: what is left of the devices follows from the pods on the node."""

    def has_pre_bind_work(self, pod: Pod, node_name: str) -> bool:
        """Does the pod have devices?"""
        return _DEVICES in self.cycle_state(pod)

    async def pre_bind(self, pod: Pod, node_name: str, api: ApiPort) -> Status | None:
        """Write the devices into the pod's annotation, for whoever starts it."""
        text = self.cycle_state(pod).get(_DEVICES)
        if text is not None:
            patch = {"metadata": {"annotations": {GPU_INDEX: text}}}
            await self.handle.client.patch(Pod, pod.name, patch, pod.namespace)
        return None

    def pre_bind_offline(self, pod: Pod) -> None:
        """The same where there is no API."""
        text, pods = self.cycle_state(pod).get(_DEVICES), self.handle.listers.of(Pod)
        current = pods.get(pod.name, pod.namespace)
        if text is not None and current is not None:
            pods.put(with_devices(current, text))

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Pods that leave, nodes that come or change, and a change of the request."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL
        return (
            on(EventResource.ASSIGNED_POD, ActionType.DELETE),
            on(EventResource.NODE, node),
            on(EventResource.TARGET_POD, ActionType.UPDATE),
        )


def with_devices(pod: Pod, text: str) -> Pod:
    """The pod as it is once its devices are written into its annotation."""
    annotations = {**pod.metadata.annotations, GPU_INDEX: text}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def after(left: Floats, request: GpuRequest) -> Floats:
    """What is left of each node's devices once the pod has its tightest ones."""
    if not request.count:
        return left
    fitting = left >= request.milli
    if request.is_fraction:
        taken = np.zeros_like(fitting)
        places = np.where(fitting, left, np.inf).argmin(axis=0)
        taken[places, np.arange(left.shape[1])] = True
    else:
        taken = fitting & (fitting.cumsum(axis=0) <= request.count)
    return np.where(taken, left - request.milli, left)


def first_of_best(scores: Ints) -> Ints:
    """Scores from 0 to 100 of which one is the largest: the first of those that were."""
    if len(scores):
        best = int(scores.argmax())
        top = min(int(scores[best]) + 1, MAX_NODE_SCORE)
        np.minimum(scores, MAX_NODE_SCORE - 1, out=scores)
        scores[best] = top
    return scores


def spread(scores: Ints) -> Ints:
    """Scores brought to 0..100, rounded down; 0 if all are equal."""
    if not len(scores):
        return scores
    low, high = int(scores.min()), int(scores.max())
    if low == high:
        return np.zeros_like(scores)
    return (scores - low) * MAX_NODE_SCORE // (high - low)
