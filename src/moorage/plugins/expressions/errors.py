"""What the modules of this plugin raise to one another."""


class NotInColumnsError(Exception):
    """An expression, or a part of one, has to be evaluated node by node."""


class InterruptedExpressionError(Exception):
    """Other pods have waited long enough for a long evaluation."""
