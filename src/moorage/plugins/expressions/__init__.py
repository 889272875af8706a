"""ExpressionFilter and ExpressionScore: a rule of one's own as a CEL expression, without a plugin.

They are Moorage's own: kube-scheduler has nothing like them. No profile enables them by
default.
"""

from moorage.plugins.expressions.plugin import ExpressionFilter, ExpressionScore

__all__ = ["ExpressionFilter", "ExpressionScore"]
