"""PrioritySort: important pods first, then the ones that have waited longest."""

from moorage.framework.plugin import QueueSortPlugin
from moorage.model.pod import Pod


class PrioritySort(QueueSortPlugin):
    """Order by priority, highest first, then by the time of entering the queue."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod, timestamp: float) -> tuple[int, float]:
        """Smaller comes first."""
        return (-pod.priority, timestamp)
