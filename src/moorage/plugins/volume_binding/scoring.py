"""How well a node's storage suits the pod: a curve over how much of it the pod would take."""

from collections.abc import Sequence

import numpy as np

from moorage.cluster.columns import Ints
from moorage.config.args import UtilizationShapePoint
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.scores import broken_line
from moorage.model.quantity import parse_milli, whole
from moorage.plugins.volume_binding.search import Provision, StaticBinding, VolumeSearch

_FULL = 100
_MAX_SHAPE_SCORE = 10

Shape = Sequence[tuple[int, int]]
ClassUse = dict[str, tuple[int, int]]
"""Storage class -> (bytes requested, bytes there are)."""


def shape_of(points: Sequence[UtilizationShapePoint]) -> Shape:
    """The configured curve with its scores brought to the range of node scores."""
    scale = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
    return [(point.utilization, point.score * scale) for point in points]


def score(search: VolumeSearch, size: int, shape: Shape) -> Ints:
    """The score of every place of the search's view."""
    scores = (_score_place(search, place, shape) for place in range(size))
    return np.fromiter(scores, np.int64, size)


def _score_place(search: VolumeSearch, place: int, shape: Shape) -> int:
    bindings = search.bindings(place)
    uses = _existing(bindings) if bindings else _on_demand(search.provisions(place))
    if not uses:
        return 0
    total = sum(_score_class(requested, there, shape) for requested, there in uses.values())
    return (2 * total + len(uses)) // (2 * len(uses))  # halves are rounded up, as by Go


def _existing(bindings: Sequence[StaticBinding]) -> ClassUse:
    uses: ClassUse = {}
    for binding in bindings:
        name = binding.volume.spec.storage_class_name
        requested, there = uses.get(name, (0, 0))
        uses[name] = (
            requested + whole(binding.claim.milli_request or 0),
            there + whole(binding.volume.milli_capacity),
        )
    return uses


def _on_demand(provisions: Sequence[Provision]) -> ClassUse:
    uses: ClassUse = {}
    for provision in provisions:
        capacity = provision.capacity
        if capacity is None:
            continue
        name = provision.claim.storage_class
        requested, _ = uses.get(name, (0, 0))
        # All claims of a class draw on the same room, so that is not added up.
        there = whole(parse_milli(capacity.capacity)) if capacity.capacity is not None else 0
        uses[name] = (requested + whole(provision.claim.milli_request or 0), there)
    return uses


def _score_class(requested: int, there: int, shape: Shape) -> int:
    if there == 0 or requested > there:
        return broken_line(shape, _FULL)
    return broken_line(shape, requested * _FULL // there)
