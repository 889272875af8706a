"""What stands in the way of volumes, worded as upstream words it."""


class VolumeBindingError(Exception):
    """Volumes cannot be bound as decided; the pod has to be placed again."""


class MatchingError(ValueError):
    """A claim that cannot be matched with anything; the message is upstream's."""
