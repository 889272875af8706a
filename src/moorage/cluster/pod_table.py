"""Pods on nodes, one slot each: where, how important, how much.

The columns here run over pods, not nodes. They exist so that a question about all pods at once
("how much would every node have if its less important pods were gone?") is one pass of NumPy. Such
questions are rarer than pods that come and go, so pods are written into the columns some at a time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage.cluster.columns import Ints, Rows
from moorage.cluster.node_table import MOST_UNUSED
from moorage.model.pod import Pod

_FIRST_CAPACITY = 256
_FREE = -1
_MOST_UNWRITTEN = 256


class LesserPods(msgspec.Struct, frozen=True):
    """The pods on nodes that are less important than some priority, as columns over them.

    Sorted by row, and within a row by importance: priority, then earlier start, then arrival.
    """

    pods: Sequence[Pod]
    rows: Rows
    priorities: Ints
    starts: NDArray[np.float64]
    requests: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.pods)


class _PodsInSlots(Sequence[Pod]):
    """The pods of some slots, looked up when asked for: of thousands only a few ever are."""

    def __init__(self, pods: Sequence[Pod | None], slots: Rows) -> None:
        self._pods = pods
        self._slots = slots

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, index: Any) -> Any:
        """One pod."""
        if isinstance(index, slice):
            return [self._pods[slot] for slot in self._slots[index]]
        return self._pods[self._slots[index]]


class PodTable:
    """Slots of pods; a free slot has row -1."""

    def __init__(self) -> None:
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._pods: list[Pod | None] = []
        self._row: NDArray[np.int64] = np.full(_FIRST_CAPACITY, _FREE, np.int64)
        self._priority: NDArray[np.int64] = np.zeros(_FIRST_CAPACITY, np.int64)
        self._start: NDArray[np.float64] = np.zeros(_FIRST_CAPACITY, np.float64)
        self._arrival: NDArray[np.int64] = np.zeros(_FIRST_CAPACITY, np.int64)
        self._arrivals = 0
        self._requests: dict[str, NDArray[np.int64]] = {}
        self._sweep_at = MOST_UNUSED
        self._by_row: list[dict[str, Pod]] = []
        self._unwritten: dict[int, tuple[int, int]] = {}
        """By slot, what the columns lack of its pod: row and arrival."""

    def add_row(self) -> None:
        """A node was added."""
        self._by_row.append({})

    def remove_row(self, row: int, moved: int) -> None:
        """An empty row was given up and row `moved` now stands in its place."""
        last = self._by_row.pop()
        if moved != row:
            self._by_row[row] = last
            self._write()
            for uid in last:
                self._row[self._slots[uid]] = row

    def add(self, row: int, pod: Pod) -> None:
        """A pod takes its place."""
        slot = self._free.pop() if self._free else self._new_slot()
        uid = pod.metadata.uid
        self._slots[uid] = slot
        self._note(slot, row, pod)
        self._by_row[row][uid] = pod

    def swap(self, row: int, pod: Pod) -> None:
        """A newer version of a pod that weighs the same; it counts as the last that came."""
        slot = self._slots[pod.uid]
        self._note(slot, row, pod)
        pods = self._by_row[row]
        del pods[pod.uid]
        pods[pod.uid] = pod

    def remove(self, row: int, pod: Pod) -> None:
        """A pod leaves."""
        slot = self._slots.pop(pod.uid)
        self._pods[slot] = None
        self._unwritten.pop(slot, None)
        if slot < len(self._row):
            self._row[slot] = _FREE
            for column in self._requests.values():
                column[slot] = 0
        self._free.append(slot)
        del self._by_row[row][pod.uid]

    def on(self, row: int) -> Iterable[Pod]:
        """The pods of a row, in the order they came."""
        return self._by_row[row].values()

    def lesser_pods(self, priority: int, now: float) -> LesserPods:
        """All pods less important than `priority`; one that has not started starts now."""
        slots = self._lower(priority)
        starts = np.where(np.isnan(self._start[slots]), now, self._start[slots])
        order = np.lexsort((self._arrival[slots], starts, -self._priority[slots], self._row[slots]))
        slots, starts = slots[order], starts[order]
        return LesserPods(
            pods=_PodsInSlots(self._pods, slots),
            rows=self._row[slots].astype(np.intp),
            priorities=self._priority[slots],
            starts=starts,
            requests={name: column[slots] for name, column in self._requests.items()},
        )

    def rows_with_lesser(self, priority: int) -> Rows:
        """Where pods less important than `priority` are; a row comes once for each of them."""
        slots = self._lower(priority)  # brings the columns up to date
        return self._row[slots].astype(np.intp)

    def _lower(self, priority: int) -> NDArray[np.intp]:
        self._write()
        used = len(self._pods)
        return np.flatnonzero((self._priority[:used] < priority) & (self._row[:used] != _FREE))

    def _note(self, slot: int, row: int, pod: Pod) -> None:
        """A slot has another pod, which came last."""
        self._pods[slot] = pod
        self._arrivals += 1
        self._unwritten[slot] = (row, self._arrivals)
        if len(self._unwritten) >= _MOST_UNWRITTEN:
            self._write()

    def _write(self) -> None:
        """Bring the columns up to date."""
        unwritten = self._unwritten
        if not unwritten:
            return
        while len(self._row) < len(self._pods):
            self._grow()
        slots = np.fromiter(unwritten, np.intp, len(unwritten))
        facts = np.array(list(unwritten.values()), np.int64)
        self._row[slots], self._arrival[slots] = facts.T
        pods = [pod for pod in map(self._pods.__getitem__, unwritten) if pod is not None]
        self._priority[slots] = [pod.priority for pod in pods]
        self._start[slots] = [np.nan if pod.started is None else pod.started for pod in pods]
        requests = [pod.requests.occupied for pod in pods]
        for name in set().union(*requests):
            self._request_column(name)[slots] = [amounts.get(name, 0) for amounts in requests]
        unwritten.clear()

    def _new_slot(self) -> int:
        self._pods.append(None)
        return len(self._pods) - 1

    def _grow(self) -> None:
        more = len(self._row)
        self._row = np.concatenate([self._row, np.full(more, _FREE, np.int64)])
        self._priority = np.concatenate([self._priority, np.zeros(more, np.int64)])
        self._start = np.concatenate([self._start, np.zeros(more, np.float64)])
        self._arrival = np.concatenate([self._arrival, np.zeros(more, np.int64)])
        for name, column in self._requests.items():
            self._requests[name] = np.concatenate([column, np.zeros(more, np.int64)])

    def _request_column(self, resource: str) -> NDArray[np.int64]:
        column = self._requests.get(resource)
        if column is None:
            if len(self._requests) >= self._sweep_at:
                self._requests = {name: old for name, old in self._requests.items() if old.any()}
                self._sweep_at = max(MOST_UNUSED, 2 * len(self._requests))
            column = self._requests[resource] = np.zeros(len(self._row), np.int64)
        return column
