"""The usual pods, by which a policy judges what is left of a node: what they ask for, how often.

They come as arguments of the plugin, or are counted among pods that are known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from moorage.cluster.columns import Ints
from moorage.cluster.derived import Floats
from moorage.errors import ConfigError
from moorage.gallery.gpus import WHOLE, GpuRequest, gpu_request
from moorage.model.pod import Pod
from moorage.model.resources import CPU

_COVERED = 0.95
_ROUNDING = 1e-9
_FIELDS = {"cpuMilli": 0, "gpuCount": 0, "gpuMilli": WHOLE, "gpuModels": (), "weight": 1}


class TypicalPod(NamedTuple):
    """Pods that ask for the same."""

    cpu: int
    """Thousandths."""
    request: GpuRequest
    weight: float
    """How many there are of each other, in any unit."""


class TypicalPods:
    """The usual pods as columns."""

    def __init__(self, pods: Iterable[TypicalPod]) -> None:
        pods = tuple(pods)
        self.requests = tuple(pod.request for pod in pods)
        self.cpu: Ints = np.array([pod.cpu for pod in pods], np.int64)
        self.count: Ints = np.array([one.count for one in self.requests], np.int64)
        self.milli: Ints = np.array([one.milli for one in self.requests], np.int64)
        weights: Floats = np.array([pod.weight for pod in pods], np.float64)
        total = weights.sum()
        # Shares stay as they are, to the last digit.
        self.weights = weights if abs(total - 1) < _ROUNDING else weights / total

    @classmethod
    def from_args(cls, plugin: str, args: Any) -> "TypicalPods":
        """As the arguments of a plugin name them, in `typicalPods`."""
        entries = args.get("typicalPods") if isinstance(args, Mapping) else None
        if not isinstance(entries, list) or not entries:
            raise ConfigError(f"{plugin}: args.typicalPods: expected a list of pods")
        pods = [_typical_pod(entry, f"args.typicalPods[{i}]") for i, entry in enumerate(entries)]
        if not any(pod.weight for pod in pods):
            raise ConfigError(f"{plugin}: args.typicalPods: expected a weight above 0")
        return cls(pods)


def _typical_pod(entry: Any, where: str) -> TypicalPod:
    if not isinstance(entry, Mapping) or entry.keys() - _FIELDS:
        raise ConfigError(f"{where}: expected {', '.join(_FIELDS)}, got {entry!r}")
    values = {**_FIELDS, **entry}
    for name in ("cpuMilli", "gpuCount", "gpuMilli", "weight"):
        number = values[name]
        kinds = (int, float) if name == "weight" else int
        if isinstance(number, bool) or not isinstance(number, kinds) or number < 0:
            raise ConfigError(f"{where}.{name}: expected a number of at least 0, got {number!r}")
    models = values["gpuModels"]
    if not isinstance(models, (list, tuple)) or not all(isinstance(one, str) for one in models):
        raise ConfigError(f"{where}.gpuModels: expected a list of models, got {models!r}")
    count, milli = values["gpuCount"], min(values["gpuMilli"], WHOLE)
    request = GpuRequest(count, milli, tuple(models)) if count and milli else GpuRequest()
    return TypicalPod(values["cpuMilli"], request, values["weight"])


def typical_pods(pods: Iterable[Pod]) -> list[TypicalPod]:
    """The most frequent pods, until they cover 95 % of those given; weights are their shares."""
    counts = Counter((pod.requests.incoming.get(CPU, 0), gpu_request(pod)) for pod in pods)
    total, covered, found = sum(counts.values()), 0, []
    for (cpu, request), count in sorted(counts.items(), key=_by_frequency, reverse=True):
        if covered >= _COVERED * total:
            break
        covered += count
        found.append(TypicalPod(cpu, request, count / total))
    # Divided in two steps, as for the published runs: nearly equal scores depend on it.
    share = covered / total if total else 1.0
    return [pod._replace(weight=pod.weight / share) for pod in found]


def _by_frequency(item: tuple[tuple[int, GpuRequest], int]) -> tuple[int, int, int, int, str]:
    (cpu, request), count = item
    return count, cpu, request.milli, request.count, "|".join(request.models)


def as_args(pods: Iterable[TypicalPod]) -> dict[str, Any]:
    """The arguments that name these pods."""
    return {
        "typicalPods": [
            {
                "cpuMilli": pod.cpu,
                "gpuCount": pod.request.count,
                "gpuMilli": pod.request.milli or WHOLE,
                "gpuModels": list(pod.request.models),
                "weight": pod.weight,
            }
            for pod in pods
        ]
    }
