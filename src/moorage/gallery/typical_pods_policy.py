"""Policies that judge a place by what the usual pods can use of a node before and after.

They try a pod on every node, and a fraction on every device of it.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from moorage.cluster.columns import Bools, Ints, Rows
from moorage.cluster.derived import Floats
from moorage.cluster.view import NodeView
from moorage.framework.plugin import Handle
from moorage.gallery.gpu_policy import GpuPolicy, after
from moorage.gallery.gpus import GpuRequest, gpu_request, of_model, tightest
from moorage.gallery.kept_scores import KeptScores
from moorage.gallery.typical_pods import TypicalPods
from moorage.model.pod import Pod
from moorage.model.resources import CPU


class Rest(NamedTuple):
    """What is left of some nodes (across)."""

    cpu: Ints
    """Thousandths."""
    gpus: Floats
    """Thousandths of each device (down)."""
    allowed: Bools
    """Which typical pods (down) may have the nodes' GPUs."""


class TypicalPodsPolicy(GpuPolicy):
    """Base of these policies; the argument `typicalPods` says which pods are usual."""

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.typical = TypicalPods.from_args(self.name, args)
        self._kept = KeptScores(self.reads)

    @abstractmethod
    def worth(self, rest: Rest) -> Floats:
        """A number for what is left of each node."""

    @abstractmethod
    def points(self, before: Floats, after: Floats) -> Ints:
        """How good it is, from 0 to 100, that a node is worth so much afterwards."""

    def score(self, pod: Pod, nodes: NodeView, state: None) -> Ints:
        """For a fraction, of the best device."""
        cpu, request = pod.requests.incoming.get(CPU, 0), gpu_request(pod)
        return self._kept.of((cpu, request), nodes, lambda some: self._scores(cpu, request, some))

    def choose(self, pod: Pod, request: GpuRequest, node: NodeView) -> Sequence[int]:
        """For a fraction, the first of the best devices."""
        left = self.devices.left(node)
        if not request.is_fraction:
            return tightest(left[:, 0].tolist(), request)
        fitting = (left[:, 0] >= request.milli).nonzero()[0]
        if not len(fitting):
            return ()
        cpu, places = pod.requests.incoming.get(CPU, 0), np.zeros(len(fitting), np.intp)
        then = _with_taken(left, fitting, places, request)
        return (int(fitting[self._points(cpu, node, left, places, then).argmax()]),)

    def _scores(self, cpu: int, request: GpuRequest, nodes: NodeView) -> Ints:
        # Where a device is on its node makes no difference to the score.
        left, everywhere = np.sort(self.devices.left(nodes), axis=0), np.arange(len(nodes))
        if not request.is_fraction:
            return self._points(cpu, nodes, left, everywhere, after(left, request))
        fitting = left >= request.milli
        fitting[1:] &= left[1:] != left[:-1]  # devices with as much left are as good
        devices, places = fitting.nonzero()
        then = _with_taken(left, devices, places, request)
        scores: Ints = np.zeros(len(nodes), np.int64)
        points = self._points(cpu, nodes, left, places, then)
        np.maximum.at(scores, places, points)
        return scores

    def _points(self, cpu: int, nodes: NodeView, left: Floats, places: Rows, then: Floats) -> Ints:
        """How good it is to leave `then` of the devices at some places, and so much less CPU."""
        free, allowed = nodes.allocatable(CPU) - nodes.requested(CPU), self._allowed(nodes)
        before = self.worth(Rest(free, left, allowed))
        now = self.worth(Rest(free[places] - cpu, then, allowed[:, places]))
        return self.points(before[places], now)

    def _allowed(self, nodes: NodeView) -> Bools:
        requests = self.typical.requests
        allowed = np.ones((len(requests), len(nodes)), np.bool_)
        for index, request in enumerate(requests):
            if request.models:
                allowed[index] = of_model(nodes, request)
        return allowed

    def fitting(self, rest: Rest) -> tuple[Bools, Floats]:
        """Do the GPUs suffice for typical pods, and what is left of the devices that would do?"""
        fits = rest.gpus >= self.typical.milli[:, None, None]
        enough = fits.sum(axis=1) >= self.typical.count[:, None]
        left: Floats = np.where(fits, rest.gpus, 0).sum(axis=1)
        return enough, left


def _with_taken(left: Floats, devices: Rows, places: Rows, request: GpuRequest) -> Floats:
    """What is left of the devices at some places, each with a part taken off one device."""
    then = left[:, places]
    then[devices, np.arange(len(devices))] -= request.milli
    return then
