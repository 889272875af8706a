"""What `moorage.testing` raises."""


class PluginCheckError(AssertionError):
    """A plugin does not pass a check; the message says which, and how to see it again."""
