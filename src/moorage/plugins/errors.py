"""What plugins raise to themselves; none of it crosses from one plugin to another.

Texts are upstream's where a pod's message shows them.
"""

from moorage.framework.status import Code, Reason

# DynamicResources: claims and devices.


class AllocationError(Exception):
    """Something is wrong with a claim or class: the whole attempt is given up."""


class CapacityError(Exception):
    """An amount of a device's capacity that nobody can be given; the text is upstream's."""


class ClaimBindingError(Exception):
    """Binding the pod has to be tried again; the text is upstream's."""


class ClaimError(Exception):
    """The pod cannot be scheduled because of a claim of its own, or of its group's."""


class DeviceFailedError(Exception):
    """A device reported that it cannot be prepared."""


class NodeAllocatableError(Exception):
    """A device's mapping does not fit what was allocated; the text is upstream's."""


class NodeAllocationError(Exception):
    """Something is wrong with the devices of one node: others may still do."""


class SearchInterruptedError(Exception):
    """The search was ended because other pods wait."""


class SearchTimedOutError(Exception):
    """The search on a node took longer than `filterTimeout`."""


# VolumeBinding.


class VolumeBindingError(Exception):
    """Volumes cannot be bound as decided; the pod has to be placed again."""


class MatchingError(ValueError):
    """A claim that cannot be matched with anything; the message is upstream's."""


# NodeVolumeLimits.


class UncountableError(Exception):
    """Volumes cannot be counted; carries what to say of the node."""

    def __init__(self, text: str, code: Code = Code.ERROR) -> None:
        super().__init__(text)
        self.reason = Reason(text, code)


# ExpressionFilter and ExpressionScore.


class NotInColumnsError(Exception):
    """An expression, or a part of one, has to be evaluated node by node."""


class InterruptedExpressionError(Exception):
    """Other pods have waited long enough for a long evaluation."""
