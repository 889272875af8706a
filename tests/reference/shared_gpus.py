"""Policies for shared GPUs, one node and one device at a time."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Wish(NamedTuple):
    """What a pod asks for."""

    cpu: int
    gpus: int = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def is_fraction(self) -> bool:
        return self.gpus == 1 and self.milli < 1000


Usual = Sequence[tuple[Wish, float]]
"""The usual pods and their weights."""


class GpuNode:
    """A node and what is left of it."""

    def __init__(self, name: str, cpu: int, gpus: int, model: str = "") -> None:
        self.name = name
        self.cpu = cpu
        self.left = [1000] * gpus
        self.model = model
        self.kinds: set[int] = set()

    def copy(self) -> "GpuNode":
        other = GpuNode(self.name, self.cpu, 0, self.model)
        other.left, other.kinds = list(self.left), set(self.kinds)
        return other

    def fits(self, wish: Wish) -> bool:
        if wish.cpu > self.cpu or (wish.models and wish.gpus and self.model not in wish.models):
            return False
        return sum(left >= wish.milli for left in self.left) >= wish.gpus

    def take(self, wish: Wish, devices: Sequence[int]) -> None:
        self.cpu -= wish.cpu
        for device in devices:
            self.left[device] -= wish.milli
        if wish.gpus:
            self.kinds.add(0 if wish.is_fraction else wish.gpus)

    def after(self, wish: Wish, devices: Sequence[int]) -> "GpuNode":
        other = self.copy()
        other.take(wish, devices)
        return other


def tight_devices(node: GpuNode, wish: Wish) -> list[int]:
    """The fullest device for a fraction, else the first that suffice."""
    fitting = [i for i, left in enumerate(node.left) if left >= wish.milli]
    if wish.is_fraction:
        fitting.sort(key=lambda i: (node.left[i], i))
    return fitting[: wish.gpus]


def best_fit(node: GpuNode, wish: Wish) -> int:
    cpu, gpu = node.cpu - wish.cpu, sum(node.left) - wish.gpus * wish.milli
    return int((1 - (cpu / 128000 * 0.5 + gpu / 8000 * 0.5)) * 100)


def dot_prod(node: GpuNode, wish: Wish) -> int:
    cpu = node.cpu / 128000 * (wish.cpu / 128000)
    gpu = sum(node.left) / 8000 * (wish.gpus * wish.milli / 8000)
    return int(100 * (1 - (cpu + gpu) / 2))


def gpu_packing(node: GpuNode, wish: Wish) -> int:
    if not wish.gpus:
        return 0
    free = node.left.count(1000)
    if free == len(node.left):
        return max(33 - free, free)
    used = sorted(left for left in node.left if left >= wish.milli)[: wish.gpus]
    if 1000 in used:
        return max(50 - used.count(1000), 33)
    return max(100 - sum(left * 100 // 1000 for left in used) // 10, 50)


def gpu_clustering(node: GpuNode, wish: Wish) -> int:
    if not wish.gpus:
        return 0
    kind = 0 if wish.is_fraction else wish.gpus
    if kind in node.kinds:
        quarter = 3 if node.kinds == {kind} else 2
    else:
        quarter = 0 if node.kinds else 1
    return 25 * (8000 - sum(node.left)) // 8000 + 25 * quarter


def fragmentation(node: GpuNode, usual: Usual) -> float:
    """What usual pods cannot use, cause by cause, as the published runs sum it up."""
    total = sum(node.left)
    causes = [0.0] * 6
    for wish, weight in usual:
        enough = sum(left >= wish.milli for left in node.left) >= wish.gpus
        has_cpu = node.cpu >= wish.cpu
        if not wish.gpus:
            causes[3 if has_cpu else 4] += weight * total
        elif wish.models and node.model not in wish.models:
            causes[5] += weight * total
        elif enough and has_cpu:
            causes[1] += weight * sum(left for left in node.left if left < wish.milli)
        elif enough:
            causes[2] += weight * total
        else:
            causes[1 if has_cpu else 0] += weight * total
    return sum(causes)


def fgd(node: GpuNode, wish: Wish, devices: Sequence[int], usual: Usual) -> float:
    """Before it is rounded down."""
    less = fragmentation(node, usual) - fragmentation(node.after(wish, devices), usual)
    return 100 / (1 + math.exp(-less / 1000))


def headroom(node: GpuNode, usual: Usual) -> float:
    total = 0.0
    for wish, weight in usual:
        if wish.gpus and node.fits(wish):
            usable = sum(left for left in node.left if left >= wish.milli)
            pods = sum(left // wish.milli for left in node.left) / wish.gpus
            pods = min(pods, node.cpu / wish.cpu) if wish.cpu else pods
            total += weight * (usable + pods * wish.gpus * wish.milli) / 2
    return total


def gpu_headroom(node: GpuNode, wish: Wish, devices: Sequence[int], usual: Usual) -> float:
    """Before it is rounded down."""
    change = headroom(node.after(wish, devices), usual) - headroom(node, usual)
    return max(100 + change / 200, 0)
