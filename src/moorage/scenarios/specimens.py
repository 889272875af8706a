"""One of everything that a scenario makes, looked at before a run: could there be such an object?

What an API server would refuse is refused here, so a run does not end with it after an hour.
"""

from collections.abc import Mapping
from typing import Any

from moorage.model.checks import check_object
from moorage.model.decode import UnknownKind, decode_object
from moorage.scenarios.pods import made_objects
from moorage.scenarios.scenario import Generator
from moorage.simulator.node_shapes import NodeShape, shaped_node
from moorage.simulator.workloads import expand_workloads

_AMOUNT = "1"
"""Stands for amounts that are drawn."""


def check_generator(given: Generator, where: str) -> None:
    """The first that comes, and the pods that controllers make of it."""
    for size in given.sizes:
        requests = {
            name: amount if isinstance(amount, str) else _AMOUNT
            for name, amount in size.requests.items()
        }
        for made in made_objects(given, f"{given.name}-0", requests, None):
            _check(made, where)


def check_shape(shape: NodeShape, where: str) -> None:
    """The first node of a shape."""
    _check(shaped_node(shape, 0), where)


def _check(body: Mapping[str, Any], where: str) -> None:
    for document, place in expand_workloads([(body, where)]):
        obj = decode_object(document, place)
        if not isinstance(obj, UnknownKind):
            check_object(obj, place)
