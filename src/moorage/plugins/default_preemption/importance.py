"""Which of two pods matters more: the higher priority, then the longer run."""

from collections.abc import Iterable

from moorage.model.pod import Pod


def start_of(pod: Pod, now: float) -> float:
    """When a pod started; one that has not started yet starts now."""
    return now if pod.started is None else pod.started


def by_importance(pods: Iterable[Pod], now: float) -> list[Pod]:
    """The pods, most important first; equals keep their order."""
    return sorted(pods, key=lambda pod: (-pod.priority, start_of(pod, now)))
