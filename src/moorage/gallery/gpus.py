"""Shared GPUs: what pods ask for, and what is left of each device of each node.

Owns the names under which pods and nodes speak of GPUs, which are open-gpu-share's. A device has
1000 parts. The devices that a pod has are written in an annotation, so what is left follows from
the pods on a node.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.cluster.derived import DerivedColumns, Floats
from moorage.cluster.view import NodeView
from moorage.model.labels import Requirement
from moorage.model.pod import Pod

GPU_COUNT = "alibabacloud.com/gpu-count"
"""Annotation of a pod: how many devices; resource of a node: how many it has."""
GPU_MILLI = "alibabacloud.com/gpu-milli"
"""Annotation of a pod: how many thousandths of each device."""
GPU_MODEL = "alibabacloud.com/gpu-card-model"
"""Annotation of a pod: models that will do, separated by `|`; label of a node: its model."""
GPU_INDEX = "alibabacloud.com/gpu-index"
"""Annotation of a pod: the devices it has, such as `0-3`."""

WHOLE = 1000
LARGEST_CPU = 128_000
LARGEST_GPU = 8 * WHOLE
"""What the largest nodes have; scores count in shares of it."""
MOST_DEVICES = 64


class GpuRequest(msgspec.Struct, frozen=True):
    """What a pod asks for."""

    count: int = 0
    milli: int = 0
    """Of each device."""
    models: tuple[str, ...] = ()
    """Empty: any."""

    @property
    def is_fraction(self) -> bool:
        """Does it share one device with others?"""
        return self.count == 1 and self.milli < WHOLE

    @property
    def total(self) -> int:
        """Thousandths of all devices together."""
        return self.count * self.milli


def gpu_request(pod: Pod) -> GpuRequest:
    """What the pod's annotations ask for; a ValueError says what is wrong with them."""
    notes = pod.metadata.annotations
    if not notes:
        return GpuRequest()
    return _request(notes.get(GPU_COUNT), notes.get(GPU_MILLI), notes.get(GPU_MODEL, ""))


@lru_cache(maxsize=4096)
def _request(count: str | None, milli: str | None, models: str) -> GpuRequest:
    if count is None and milli is None:
        return GpuRequest()
    number = _amount(GPU_COUNT, "1" if count is None else count, MOST_DEVICES)
    share = _amount(GPU_MILLI, str(WHOLE) if milli is None else milli, WHOLE)
    if not number or not share:
        return GpuRequest()
    return GpuRequest(number, share, tuple(filter(None, models.split("|"))))


def _amount(name: str, text: str, most: int) -> int:
    if not text.isdecimal() or int(text) > most:
        raise ValueError(f"annotation {name}: expected a whole number from 0 to {most}, got {text}")
    return int(text)


def device_text(devices: Iterable[int]) -> str:
    """Devices as the annotation has them."""
    return "-".join(map(str, devices))


def tightest(left: Sequence[float], request: GpuRequest) -> tuple[int, ...]:
    """For a fraction the device with the least left that suffices, else the first that suffice.

    Fewer than asked for, if there are not enough.
    """
    fitting = [device for device, free in enumerate(left) if free >= request.milli]
    if request.is_fraction:
        fitting.sort(key=left.__getitem__)
    return tuple(fitting[: request.count])


def left_on(count: int, pods: Iterable[Pod]) -> list[int]:
    """What some pods leave of each of a node's devices.

    Of a pod that does not say which devices it has, it is guessed.
    """
    left = [WHOLE] * count
    for pod in pods:
        try:
            request = gpu_request(pod)
        except ValueError:
            continue  # it came past all filters, so it has no device of ours
        if not request.count:
            continue
        noted = pod.metadata.annotations.get(GPU_INDEX, "").split("-")
        devices = [int(text) for text in noted if text.isdecimal() and int(text) < count]
        for device in devices or tightest(left, request):
            left[device] = max(left[device] - request.milli, 0)
    return left


class GpuDevices:
    """What is left of the devices of all nodes, worked out again for nodes that change."""

    def __init__(self) -> None:
        self._columns = DerivedColumns(self._of_all, self._of_row)
        self._most = 0
        """Of how many devices there are rows."""

    def left(self, nodes: NodeView) -> Floats:
        """A row per device; 0 where a node has none."""
        left = self._columns.of(nodes)
        assert left is not None, "amounts are small"
        return left

    def _of_all(self, nodes: NodeView) -> Floats:
        counts = nodes.allocatable(GPU_COUNT).clip(0, MOST_DEVICES).tolist()
        most = _most_devices(nodes)
        if type(nodes) is NodeView:  # of the whole cluster, and kept
            self._most = most
        left = np.zeros((most, len(nodes)))
        for index, count in enumerate(counts):
            if count:
                left[:count, index] = left_on(count, nodes.pods_on(index))
        return left

    def _of_row(self, nodes: NodeView, row: int) -> list[int] | None:
        most = _most_devices(nodes)
        if most != self._most:
            return None
        count = min(max(nodes.amounts_at(row, GPU_COUNT)[1], 0), most)
        return left_on(count, nodes.pods_on(row)) + [0] * (most - count)


def _most_devices(nodes: NodeView) -> int:
    return min(int(nodes.whole.allocatable(GPU_COUNT).max(initial=0)), MOST_DEVICES)


def of_model(nodes: NodeView, request: GpuRequest) -> Bools:
    """Which nodes have GPUs of a model that will do?"""
    if not request.models:
        return np.ones(len(nodes), np.bool_)
    wanted = Requirement(GPU_MODEL, "In", request.models)
    return nodes.label(GPU_MODEL).matching(wanted)
