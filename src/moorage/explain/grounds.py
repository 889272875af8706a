"""Grounds: one plugin rejects some nodes for one reason; and the rejections that they add up to.

Owns what a survey of live plugins and a record of what they once said have in common. Must not
know where grounds come from.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from moorage.cluster.columns import Bools
from moorage.explain.report import Rejection
from moorage.framework.status import Code

MOST_EXAMPLES = 5
"""So many nodes of a rejection are named."""


class Ground(msgspec.Struct, frozen=True):
    """One plugin rejects some rows for one reason."""

    plugin: str
    point: str
    reason: str
    code: str
    """The value of a `Code`; "" if it was not recorded."""
    rows: Bools
    with_nominated_pods: bool = False


def by_plugin(grounds: Sequence[Ground]) -> Mapping[str, Bools]:
    """The rows that each plugin rejects, for whatever reason."""
    rows: dict[str, Bools] = {}
    for ground in grounds:
        known = rows.get(ground.plugin)
        rows[ground.plugin] = ground.rows if known is None else known | ground.rows
    return rows


def grouped(
    grounds: Sequence[Ground], size: int, name_of: Callable[[int], str], order: Sequence[str]
) -> tuple[Rejection, ...]:
    """One rejection for each reason of a plugin, those of most nodes first.

    `size` is how many rows there are; among equals plugins come in the `order` given.
    """
    rejecters: Any = np.zeros(size, np.int64)
    for rows in by_plugin(grounds).values():
        rejecters += rows
    alone = rejecters == 1
    place_of = {plugin: place for place, plugin in enumerate(order)}
    groups: dict[tuple[str, str, str, bool], list[Ground]] = {}
    for ground in grounds:
        key = (ground.plugin, ground.point, ground.reason, ground.with_nominated_pods)
        groups.setdefault(key, []).append(ground)
    told = [_rejection(group, alone, name_of) for group in groups.values()]
    told.sort(key=lambda one: (-one.nodes, place_of.get(one.plugin, len(place_of)), one.reason))
    return tuple(told)


def _rejection(grounds: Sequence[Ground], alone: Bools, name_of: Callable[[int], str]) -> Rejection:
    """One plugin's rejection for one reason; its grounds differ in their codes."""
    rows = np.zeros(len(alone), np.bool_)
    for ground in grounds:
        rows |= ground.rows
    most = max(grounds, key=lambda ground: int(np.count_nonzero(ground.rows)))
    return Rejection(
        plugin=most.plugin,
        reason=most.reason,
        nodes=int(np.count_nonzero(rows)),
        examples=tuple(map(name_of, np.flatnonzero(rows)[:MOST_EXAMPLES].tolist())),
        point=most.point,
        code=most.code,
        only=int(np.count_nonzero(rows & alone)),
        with_nominated_pods=most.with_nominated_pods,
        unresolvable=sum(
            int(np.count_nonzero(ground.rows))
            for ground in grounds
            if ground.code == Code.UNRESOLVABLE.value
        ),
    )
