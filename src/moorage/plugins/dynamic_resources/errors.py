"""What can go wrong with claims and devices; the texts are upstream's."""


class AllocationError(Exception):
    """Something is wrong with a claim or class: the whole attempt is given up."""


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
