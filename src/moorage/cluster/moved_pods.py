"""Pods that would come to nodes, or leave them, summed up.

Preemptors wait by the hundred, and they are mostly replicas, which share what was worked out of
their requests. So pods are counted kind by kind, and a kind is asked for its amount once.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from moorage.cluster.columns import Ints, Rows
from moorage.model.pod import Pod
from moorage.model.pod_requests import PodRequests

Measure = Callable[[PodRequests], int]


class MovedPods:
    """Some pods at places of a view."""

    def __init__(self, moved: Iterable[tuple[int, Sequence[Pod]]]) -> None:
        places_of: dict[int, list[int]] = {}
        requests_of: dict[int, PodRequests] = {}
        for place, pods in moved:
            for pod in pods:
                requests = pod.requests
                kind = id(requests)
                places = places_of.get(kind)
                if places is None:
                    # Kept alive, so that the number stands for no other kind meanwhile.
                    requests_of[kind] = requests
                    places = places_of[kind] = []
                places.append(place)
        self._kinds: list[tuple[PodRequests, Rows]] = [
            (requests, np.array(places_of[kind], np.intp)) for kind, requests in requests_of.items()
        ]

    def add_to(self, column: Ints, measure: Measure, sign: int = 1) -> None:
        """Add what the pods bring, place by place; -1 takes it away."""
        for requests, places in self._kinds:
            amount = measure(requests)
            if amount:
                np.add.at(column, places, sign * amount)
