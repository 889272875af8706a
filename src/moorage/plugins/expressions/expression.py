"""An expression over pod and node, ready to be asked about all nodes at once.

Owns the choice between columns and node by node, and what follows from the expression's text: which
node data it reads, and what of a pod. Must not decide what a failure means: the plugins do.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from moorage.cel import Environment, EvaluationError
from moorage.cel.program import CheckedExpression, Program, check_expression
from moorage.cluster.columns import Codes
from moorage.cluster.stamps import Aspect
from moorage.cluster.view import NodeView
from moorage.model.pod import Pod
from moorage.plugins.errors import NotInColumnsError
from moorage.plugins.expressions.column_values import Failures
from moorage.plugins.expressions.columns import ColumnCompiler, Inputs, Part
from moorage.plugins.expressions.variables import NodeVariables, waiting_pod

_ASPECTS = {
    "name": (Aspect.MEMBERSHIP,),
    "labels": (Aspect.LABELS,),
    "allocatable": (Aspect.ALLOCATABLE,),
    "requested": (Aspect.REQUESTED,),
    "pods": (Aspect.PODS,),
}
"""By field of the node; of annotations and capacity nobody notes when they change."""


class Values(NamedTuple):
    """The expression's values (booleans or integers), and where there are none."""

    values: Any
    failed: Codes | None
    """For each row 0 or the number of a failure's sentence; None if no row fails."""
    failures: Failures


class NodeExpression:
    """A compiled expression."""

    def __init__(self, text: str, environment: Environment) -> None:
        """Raises `CompileError`."""
        checked = check_expression(text, environment)
        self.is_filter = checked.type_of(checked.tree) == "bool"
        """Does it say yes or no? If not, it gives integers."""
        self._dtype = np.bool_ if self.is_filter else np.int64
        self._program: Program = checked.program()
        self._node = NodeVariables(self._program.reads)
        self._columns = _in_columns(checked)

    @property
    def in_columns(self) -> bool:
        """Is it evaluated for all nodes at once?"""
        return self._columns is not None

    def values(
        self, pod: Pod, nodes: NodeView, checkpoint: Callable[[], None] = lambda: None
    ) -> Values:
        """The value for every node of a view; the checkpoint is called in long computations."""
        if self._columns is not None:
            try:
                return self._by_column(self._columns, pod, nodes)
            except NotInColumnsError:  # the pod makes it too costly
                pass
        return self.by_row(pod, nodes, checkpoint)

    def _by_column(self, columns: Part, pod: Pod, nodes: NodeView) -> Values:
        inputs = Inputs(pod, nodes)
        answer = columns(inputs)
        values, failed = answer.values, None
        if answer.is_scalar:
            values = np.full(len(nodes), values, self._dtype)
        if answer.may_fail:
            failed = np.broadcast_to(np.asarray(answer.failed, np.int32), len(nodes))
        return Values(values, failed, inputs.failures)

    def by_row(
        self, pod: Pod, nodes: NodeView, checkpoint: Callable[[], None] = lambda: None
    ) -> Values:
        """The same, node by node."""
        variable, failures = waiting_pod(pod), Failures()
        values: Any = np.zeros(len(nodes), self._dtype)
        failed = np.zeros(len(nodes), np.int32)
        for row in range(len(nodes)):
            checkpoint()
            try:
                variables = {"pod": variable, "node": self._node.at(nodes, row)}
                values[row] = self._program.evaluate(variables, checkpoint=checkpoint)
            except EvaluationError as error:
                failed[row] = failures.code(str(error))
        return Values(values, failed if failed.any() else None, failures)

    # What follows from the text

    def fields(self, variable: str) -> frozenset[str] | None:
        """The fields of `pod` or `node` that it reads; None if it may be all."""
        paths = self._program.reads
        if paths is None or any(path == (variable,) for path in paths):
            return None
        return frozenset(str(path[1]) for path in paths if path[0] == variable)

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The node data that the values depend on; nothing if some of it is not followed."""
        fields = self.fields("node")
        if fields is None or not fields <= _ASPECTS.keys():
            return ()
        found = {aspect for field in fields for aspect in _ASPECTS[field]}
        return tuple(sorted(found)) or (Aspect.MEMBERSHIP,)

    def pod_key(self, pod: Pod) -> Hashable | None:
        """What it reads of a pod; None if it may be everything."""
        paths = self._program.reads
        if paths is None or ("pod",) in paths:
            return None
        variable = waiting_pod(pod)
        own: Iterable[Any] = sorted({path[1:3] for path in paths if path[0] == "pod"}, key=repr)
        return tuple(_part(variable, path) for path in own)


def _in_columns(checked: CheckedExpression) -> Part | None:
    try:
        return ColumnCompiler(checked).compile(checked.tree)
    except (NotInColumnsError, RecursionError):
        return None


def _part(variable: dict[str, Any], path: tuple[Any, ...]) -> Hashable:
    """A field of the pod, or what is in it under a key."""
    value = variable[path[0]]
    if not isinstance(value, dict):
        return str(value)
    if len(path) > 1 and isinstance(path[1], str):
        return value.get(path[1])
    return tuple(sorted(value.items()))
