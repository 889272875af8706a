"""The GPU trace "openb": nodes, pods, and in which order pods arrive.

Owns the layout of the files (Alibaba's cluster-trace-gpu-v2023; an order is two lines of numbers)
and what is said of a file that is wrong. Makes no objects of it.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from moorage.errors import InputError

WHOLE_GPU = 1000


class TraceNode(NamedTuple):
    """A node of the trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class TracePod(NamedTuple):
    """What a pod of the trace asks for."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    """Of each GPU."""
    models: tuple[str, ...]
    """Any will do if there are none."""


class Order(NamedTuple):
    """Who arrives, and which of equal nodes is taken."""

    arrivals: Sequence[int]
    """Numbers of pods, in the order of their names; a pod may arrive several times."""
    ranks: Sequence[int]
    """Of the nodes, in the order of their names; the smallest comes first."""


def read_nodes(path: Path) -> list[TraceNode]:
    """The nodes, by name."""
    nodes = [
        TraceNode(
            row.text("sn"),
            row.amount("cpu_milli"),
            row.amount("memory_mib"),
            row.amount("gpu"),
            row.text("model", missing=""),
        )
        for row in _rows(path, ("sn", "cpu_milli", "memory_mib", "gpu"))
    ]
    return sorted(nodes)


def read_pods(path: Path) -> list[TracePod]:
    """The pods, by name."""
    pods = sorted(map(_pod, _rows(path, ("name", "cpu_milli", "memory_mib", "num_gpu"))))
    if not pods:
        raise InputError(f"{path}: expected at least one pod")
    return pods


def _pod(row: "_Row") -> TracePod:
    gpus = row.amount("num_gpu")
    return TracePod(
        row.text("name"),
        row.amount("cpu_milli"),
        row.amount("memory_mib"),
        gpus,
        min(row.amount("gpu_milli"), WHOLE_GPU) if gpus else 0,
        tuple(filter(None, row.text("gpu_spec", missing="").split("|"))),
    )


def read_order(path: Path, pods: int, nodes: int) -> Order:
    """The order of so many pods and nodes."""
    lines = _text(path).splitlines()
    if len(lines) < 2:
        raise InputError(f"{path}: expected a line of pods and a line of ranks, got {len(lines)}")
    arrivals = _numbers(path, 1, lines[0])
    ranks = _numbers(path, 2, lines[1])
    if not arrivals or max(arrivals) >= pods:
        raise InputError(f"{path}:1: expected numbers of {pods} pods, from 0 to {pods - 1}")
    if sorted(ranks) != list(range(nodes)):
        raise InputError(f"{path}:2: expected each rank from 0 to {nodes - 1} once")
    return Order(arrivals, ranks)


def _numbers(path: Path, line: int, text: str) -> list[int]:
    words = text.split()
    for word in words:
        if not word.isdecimal():
            raise InputError(f"{path}:{line}: expected whole numbers, got {word[:40]!r}")
    return [int(word) for word in words]


class _Row(NamedTuple):
    place: str
    values: dict[str, str]

    def text(self, column: str, missing: str | None = None) -> str:
        """A value; it may be absent only if something stands for it."""
        value = self.values.get(column) or missing
        if value is None:
            raise InputError(f"{self.place}: {column}: expected a value, got nothing")
        return value

    def amount(self, column: str) -> int:
        value = self.text(column)
        if not value.isdecimal():
            raise InputError(f"{self.place}: {column}: expected a whole number, got {value!r}")
        return int(value)


def _rows(path: Path, columns: Sequence[str]) -> Iterator[_Row]:
    reader = csv.DictReader(io.StringIO(_text(path)), strict=True)
    try:
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{path}:1: expected the column {missing[0]}")
        for values in reader:
            yield _Row(f"{path}:{reader.line_num}", values)
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: expected CSV: {error}") from None


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, OSError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path}: {reason}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected text in UTF-8") from None
