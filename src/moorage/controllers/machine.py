"""What a runner has to know of a state machine: what it looks at, and the questions it answers."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from moorage.controllers.cluster import ClusterObjects, Key
from moorage.controllers.objects import Json
from moorage.controllers.plan import Plan
from moorage.errors import MoorageError

UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    MoorageError,
    msgspec.MsgspecError,
)
"""What an object that no API server should have let in does to a state machine."""


class StateMachine(NamedTuple):
    """Controllers or kubelets, for a runner over the API or in virtual time."""

    followed: Mapping[str, str]
    """Every kind that is looked at, and the resource that it is listed under."""
    affected: Callable[[ClusterObjects, Json | None, Json | None], Iterable[Key]]
    """What has to be looked at after a change; a state is None if there was or is no object."""
    reconcile: Callable[[ClusterObjects, Json, float], Plan]
    """What is to be written for an object now, and when to look at it again."""
    of_pods: Callable[[Json], Json]
    """Of the spec of a pod, which may be one of tens of thousands, only what is read."""
    selectors: Mapping[str, str] = {}
    """By resource: the field selector of those objects that matter."""
