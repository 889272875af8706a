"""Grounds: one plugin rejects some nodes for one reason.

Owns what a survey of live plugins and a record of what they once said have in common. Must not
know where grounds come from.
"""

import msgspec

from moorage.cluster.columns import Bools

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
