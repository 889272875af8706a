"""Which of two pods matters more: the higher priority, then the longer run."""

from datetime import datetime

from moorage.model.pod import Pod


def start_of(pod: Pod, now: float) -> float:
    """When a pod started; one that has not started, or says nothing readable, starts now."""
    text = pod.status.start_time
    if text is None:
        return now
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return now


def by_importance(pods: list[Pod], now: float) -> list[Pod]:
    """The pods, most important first; equals keep their order."""
    return sorted(pods, key=lambda pod: (-pod.priority, start_of(pod, now)))
