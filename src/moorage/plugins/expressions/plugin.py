"""The two plugins: ExpressionFilter refuses nodes, ExpressionScore ranks them."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from moorage.cel import Environment
from moorage.cel.values import MIN_INT
from moorage.cluster.columns import Ints
from moorage.cluster.view import NodeView
from moorage.config.args import MIN_MAX, ExpressionFilterArgs, ExpressionScoreArgs
from moorage.config.expressions import FILTER_EXPRESSIONS, SCORE_EXPRESSIONS, expression_errors
from moorage.errors import ConfigError
from moorage.framework.cluster_events import (
    ActionType,
    EventRegistration,
    EventResource,
    on,
)
from moorage.framework.plugin import MAX_NODE_SCORE, FilterPlugin, Handle, Plugin, ScorePlugin
from moorage.framework.status import Code, Reason, Verdicts
from moorage.model.pod import Pod
from moorage.plugins.errors import InterruptedExpressionError
from moorage.plugins.expressions.expression import NodeExpression, Values

REFUSED = "node(s) didn't satisfy the expression of ExpressionFilter"
FAILED = "node(s) couldn't be judged by the expression of ExpressionFilter"
_CHANGED_BY_PODS = frozenset(("requested", "pods"))
_NODE_UPDATES = {
    "labels": ActionType.UPDATE_NODE_LABEL,
    "annotations": ActionType.UPDATE_NODE_ANNOTATION,
    "capacity": ActionType.UPDATE_NODE_ALLOCATABLE,
    "allocatable": ActionType.UPDATE_NODE_ALLOCATABLE,
}


class _ExpressionPlugin(Plugin):
    """What both have in common: an expression, and what it depends on."""

    def __init__(self, args: Any, handle: Handle, environment: Environment) -> None:
        super().__init__(args, handle)
        errors = expression_errors("args.expression", args.expression, environment)
        if errors:
            raise ConfigError(errors[0])
        self._expression = NodeExpression(args.expression, environment)
        self.reads = self._expression.aspects

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What the expression reads of the pod."""
        return self._expression.pod_key(pod)

    def may_take_long(self, pod: Pod) -> bool:
        """Node by node it may."""
        return not self._expression.in_columns

    def _values(self, pod: Pod, nodes: NodeView) -> Values:
        return self._expression.values(pod, nodes, self._checkpoint)

    def _checkpoint(self) -> None:
        if self.handle.pacing.checkpoint():
            raise InterruptedExpressionError("the expression takes too long: other pods wait")


class ExpressionFilter(_ExpressionPlugin, FilterPlugin[None]):
    """Refuses the nodes of which the expression is false, and those of which it fails."""

    name = "ExpressionFilter"

    def __init__(self, args: ExpressionFilterArgs, handle: Handle) -> None:
        super().__init__(args, handle, FILTER_EXPRESSIONS)
        fields = self._expression.fields("node")
        by_pods = fields is None or bool(fields & _CHANGED_BY_PODS)
        self._code = Code.UNSCHEDULABLE if by_pods else Code.UNRESOLVABLE
        self._refused = Reason(args.message or REFUSED, self._code)

    def filter(self, pod: Pod, nodes: NodeView, state: None = None) -> Verdicts:
        """One expression for all nodes."""
        values, failed, failures = self._values(pod, nodes)
        verdicts = Verdicts(len(nodes), (self._refused,))
        if failed is None:
            return verdicts.reject(np.logical_not(values), self._refused)
        verdicts.reject(np.logical_not(values) & (failed == 0), self._refused)
        for code in np.unique(failed[failed != 0]).tolist():
            reason = Reason(f"{FAILED}: {failures.sentence(code)}", self._code)
            verdicts.reject(failed == code, reason)
        return verdicts

    def events_to_register(self) -> Sequence[EventRegistration] | None:
        """Changes of what the expression reads."""
        of_node, of_pod = self._expression.fields("node"), self._expression.fields("pod")
        if of_node is None:
            return None
        action = ActionType.ADD
        for field in of_node:
            action |= _NODE_UPDATES.get(field, ActionType.ADD)
        events = [on(EventResource.NODE, action)]
        if of_node & _CHANGED_BY_PODS:
            events.append(on(EventResource.ASSIGNED_POD, ActionType.ALL))
        if of_pod is None or of_pod:
            events.append(on(EventResource.TARGET_POD, ActionType.UPDATE))
        return events


class ExpressionScore(_ExpressionPlugin, ScorePlugin[None]):
    """Ranks nodes by the expression's number; a node of which it fails gets 0 points."""

    name = "ExpressionScore"

    def __init__(self, args: ExpressionScoreArgs, handle: Handle) -> None:
        super().__init__(args, handle, SCORE_EXPRESSIONS)
        self._spread = args.normalization == MIN_MAX

    def score(self, pod: Pod, nodes: NodeView, state: None = None) -> Ints:
        """The numbers as they are; the smallest there is stands for a failure."""
        values, failed, _ = self._values(pod, nodes)
        if failed is not None:
            return np.where(failed != 0, MIN_INT, values)
        scores: Ints = values if values.flags.writeable else values.copy()
        return scores

    def normalize(self, scores: Ints, state: None) -> Ints:
        """The best node gets 100 points and the worst 0, or numbers are cut to 0..100."""
        if not self._spread:
            return np.clip(scores, 0, MAX_NODE_SCORE)
        judged = scores[scores != MIN_INT]
        if not len(judged):
            return np.zeros_like(scores)
        low, high = int(judged.min()), int(judged.max())
        if low == high:
            return np.where(scores == MIN_INT, 0, MAX_NODE_SCORE)
        if (high - low) * MAX_NODE_SCORE > np.iinfo(np.int64).max:
            return _spread_exactly(scores, low, high)
        points: Ints = (np.maximum(scores, low) - low) * MAX_NODE_SCORE // (high - low)
        return points


def _spread_exactly(scores: Ints, low: int, high: int) -> Ints:
    """The same where 64 bits are too few on the way."""
    points = [(max(score, low) - low) * MAX_NODE_SCORE // (high - low) for score in scores.tolist()]
    return np.array(points, np.int64)
