"""Pods written into their columns some at a time are found as if each had been written at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.cluster import pod_table
from moorage.cluster.pod_table import PodTable
from moorage.model.pod import Pod
from moorage.testing import make_pod

ROWS = 3
NOW = 10.0
MOST_UNWRITTEN = 3
GPU = "example.com/gpu"

names = st.sampled_from([f"p{number}" for number in range(8)])
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "swap", "remove", "ask", "move"]),
        names,
        st.integers(0, ROWS - 1),
        st.integers(0, 2),
    ),
    max_size=30,
)


def made(name: str, priority: int) -> Pod:
    requests = {GPU: "1"} if priority else {}
    return make_pod(name, cpu=f"{1 + priority}", priority=priority, requests=requests)


class Plain:
    """What the table should know: one line per pod, in the order they came."""

    def __init__(self) -> None:
        self.lines: dict[str, tuple[Pod, int]] = {}

    def put(self, pod: Pod, row: int) -> None:
        self.lines.pop(pod.uid, None)
        self.lines[pod.uid] = (pod, row)

    def lesser(self, priority: int) -> list[tuple[str, int, int, int]]:
        """Name, row, cpu and gpus by row and importance; those of equal importance as they came."""
        lines = [line for line in self.lines.values() if line[0].priority < priority]
        lines.sort(key=lambda line: (line[1], -line[0].priority))
        return [
            (pod.name, row, pod.requests.occupied["cpu"], pod.requests.occupied.get(GPU, 0))
            for pod, row in lines
        ]


def asked(table: PodTable, priority: int) -> list[tuple[str, int, int, int]]:
    lesser = table.lesser_pods(priority, NOW)
    none = np.zeros(len(lesser), np.int64)
    columns = [lesser.requests.get(name, none).tolist() for name in ("cpu", GPU)]
    lines = zip(lesser.pods, lesser.rows.tolist(), *columns, strict=True)
    return [(pod.name, row, cpu, gpus) for pod, row, cpu, gpus in lines]


@given(steps)
def test_lesser_pods_are_those_of_one_line_per_pod(
    walk: list[tuple[str, str, int, int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_table, "_MOST_UNWRITTEN", MOST_UNWRITTEN)
        table, plain = PodTable(), Plain()
        for _ in range(ROWS):
            table.add_row()
        for step, name, row, number in walk:
            known = plain.lines.get(made(name, 0).uid)
            if step == "add" and known is None:
                pod = made(name, number)
                table.add(row, pod)
                plain.put(pod, row)
            elif step == "swap" and known is not None:
                again = made(name, known[0].priority)
                table.swap(known[1], again)
                plain.put(again, known[1])
            elif step == "remove" and known is not None:
                table.remove(known[1], known[0])
                del plain.lines[known[0].uid]
            elif step == "move" and not any(line[1] == row for line in plain.lines.values()):
                # The last row takes the place of an empty one, and an empty one comes.
                table.remove_row(row, ROWS - 1)
                table.add_row()
                for uid, (pod, where) in plain.lines.items():
                    plain.lines[uid] = (pod, row if where == ROWS - 1 else where)
            elif step == "ask":
                assert asked(table, number) == plain.lesser(number)
        assert asked(table, 3) == plain.lesser(3)
