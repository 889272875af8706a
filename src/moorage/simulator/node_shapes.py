"""Nodes for a cluster that has none of its own: `--nodes 100 --shape cpu=32,memory=128Gi,gpu=8`.

Owns how shapes are written and what is wrong with one. Makes manifests; creates nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from moorage.controllers.kubelet import FAKE_NODE
from moorage.errors import InputError
from moorage.model.quantity import parse_milli

_PLAIN = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_ALIASES = {"gpu": "nvidia.com/gpu"}
_ZONES = "abc"
_AMOUNT = re.compile(r"\d+(\.\d+)?")
_MOST = 100_000
_LARGEST = 2**53
"""Of CPU in thousandths; scores multiply amounts, and 64 bits have to do."""
_EXPECTED = (
    "expected [COUNT:]cpu=32,memory=128Gi,gpu=8 and the like, with name= and zone= if you wish"
)


class NodeShape(NamedTuple):
    """What so many nodes have; `nodes` is None where `--nodes` says it."""

    resources: Mapping[str, str] = {}
    nodes: int | None = None
    name: str = "node"
    zone: str = ""
    """Empty: three zones take turns."""
    price: str = ""
    """Per hour, for who counts what nodes cost."""


def parse_shape(text: str) -> NodeShape:
    """Read `20:cpu=64,memory=256Gi,name=large`; quantities that are left out are a plain node's."""
    number, colon, rest = text.rpartition(":")
    if colon and not number.isdecimal():
        raise _wrong(text, f"{number!r} is not a number of nodes")
    found: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise _wrong(text, f"{part!r} is not KEY=VALUE")
        found[_ALIASES.get(key, key)] = value
    name, zone, price = found.pop("name", "node"), found.pop("zone", ""), found.pop("price", "")
    if price and not _AMOUNT.fullmatch(price):
        raise _wrong(text, f"{price!r} is not a price")
    for key, value in found.items():
        _check_resource(text, key, value)
    return NodeShape(found, int(number) if colon else None, name, zone, price)


def _check_resource(text: str, key: str, value: str) -> None:
    if key not in _PLAIN and "/" not in key:
        known = ", ".join((*_PLAIN, *_ALIASES))
        raise _wrong(text, f"there is no resource {key!r}; there are {known} and example.com/any")
    try:
        amount = parse_milli(value)
    except ValueError:
        amount = -1
    if amount < 0:
        raise _wrong(text, f"{value!r} is not an amount of {key}")
    if amount > _LARGEST * (1 if key == "cpu" else 1000):
        raise _wrong(text, f"{value!r} is too much {key}")


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"--shape {text}: {why}; {_EXPECTED}")


def counted_shapes(count: int | None, shapes: Sequence[NodeShape]) -> list[NodeShape]:
    """The shapes with their numbers: `count` is for the one without, or for plain nodes."""
    without = sum(shape.nodes is None for shape in shapes)
    if without > 1:
        raise InputError("--shape: only one may go without a number of nodes (20:cpu=64)")
    if not without and count is not None:
        shapes = [NodeShape(), *shapes]
    missing = 1 if count is None else count
    found = [shape._replace(nodes=missing) if shape.nodes is None else shape for shape in shapes]
    total = sum(shape.nodes or 0 for shape in found)
    if total > _MOST:
        raise InputError(f"--nodes, --shape: at most {_MOST} nodes, got {total}")
    return found


def node_manifests(count: int) -> Sequence[dict[str, Any]]:
    """So many plain nodes."""
    return shaped_nodes([NodeShape(nodes=count)])


def shaped_nodes(shapes: Iterable[NodeShape]) -> Sequence[dict[str, Any]]:
    """Nodes of these shapes; those of one name are numbered through."""
    made: list[dict[str, Any]] = []
    numbers: Counter[str] = Counter()
    for shape in shapes:
        for _ in range(shape.nodes or 0):
            number = numbers[shape.name]
            numbers[shape.name] += 1
            made.append(shaped_node(shape, number))
    return made


def shaped_node(shape: NodeShape, number: int) -> dict[str, Any]:
    """One node of a shape."""
    zone = shape.zone or f"zone-{_ZONES[number % len(_ZONES)]}"
    return _node(f"{shape.name}-{number}", zone, {**_PLAIN, **shape.resources})


def _node(name: str, zone: str, amounts: dict[str, str]) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {FAKE_NODE: "fake"}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
