"""How well a node's storage suits the pod: a curve over how much of it the pod would take."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from moorage.cluster.columns import Bools, Ints
from moorage.config.args import UtilizationShapePoint
from moorage.framework.plugin import MAX_NODE_SCORE
from moorage.framework.scores import broken_line
from moorage.plugins.volume_binding.search import StorageUse, VolumeSearch

_FULL = 100
_MAX_SHAPE_SCORE = 10


class Curve:
    """The configured shape, with its scores brought to the range of node scores."""

    def __init__(self, points: Sequence[UtilizationShapePoint]) -> None:
        scale = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
        shape = [(point.utilization, point.score * scale) for point in points]
        self._scores = np.array([broken_line(shape, used) for used in range(_FULL + 1)], np.int64)

    def at(self, requested: Ints, there: Ints) -> Ints:
        """The score of each place."""
        fits = (there > 0) & (requested <= there)
        used = np.where(fits, requested * _FULL // np.maximum(there, 1), _FULL)
        scores: Ints = self._scores[used]
        return scores


def score(search: VolumeSearch, size: int, curve: Curve) -> Ints:
    """The score of every place of the search's view.

    Where a claim gets an existing volume, those that are made on demand do not count.
    """
    existing, any_existing = _mean(search.existing_uses(), size, curve, add_room=True)
    # All claims of a class draw on the same room, so that is not added up.
    on_demand, _ = _mean(search.on_demand_uses(), size, curve, add_room=False)
    return np.where(any_existing, existing, on_demand)


class _ClassUse(msgspec.Struct):
    requested: Ints
    there: Ints
    where: Bools


def _mean(
    uses: Iterable[StorageUse], size: int, curve: Curve, *, add_room: bool
) -> tuple[Ints, Bools]:
    """The mean score of the storage classes used on each place, and where there are any."""
    by_class: dict[str, _ClassUse] = {}
    for use in uses:
        known = by_class.get(use.storage_class)
        if known is None:
            nothing: Ints = np.zeros(size, np.int64)
            known = _ClassUse(nothing, nothing.copy(), np.zeros(size, np.bool_))
            by_class[use.storage_class] = known
        known.requested[use.where] += use.requested
        if add_room:
            known.there[use.where] += use.there[use.where]
        else:
            known.there[use.where] = use.there[use.where]
        known.where |= use.where
    total: Ints = np.zeros(size, np.int64)
    classes: Ints = np.zeros(size, np.int64)
    for one in by_class.values():
        total += np.where(one.where, curve.at(one.requested, one.there), 0)
        classes += one.where
    # Halves are rounded up, as by Go.
    return (2 * total + classes) // np.maximum(2 * classes, 1), classes > 0
