"""An expression of ExpressionFilter or ExpressionScore, tried on the nodes of a world.

Owns which pod is asked about and the order of the nodes. Must not print.
"""

import msgspec

from moorage.cel import CompileError
from moorage.cluster.view import NodeView
from moorage.config.expressions import LONGEST, TRIED_EXPRESSIONS, complaints
from moorage.errors import InputError
from moorage.model.pod import Pod
from moorage.plugins.expressions.expression import NodeExpression
from moorage.simulator.world import World, find_subject


class TriedNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node, and the expression's value for it or why there is none."""

    name: str
    value: bool | int | None = None
    error: str = ""


class ExpressionTrial(msgspec.Struct, frozen=True, rename="camel"):
    """What came of it: best nodes first, those without a value last."""

    expression: str
    pod: str | None
    """`namespace/name`; None if the expression asks about none."""
    in_columns: bool
    """Is it worked out for all nodes at once, not node by node?"""
    is_filter: bool
    nodes: tuple[TriedNode, ...]


def try_expression(text: str, world: World, pod_name: str | None) -> ExpressionTrial:
    """Evaluate an expression for all nodes; raises `InputError`."""
    expression = _compiled(text)
    reads_pod = expression.fields("pod") != frozenset()
    pod = _pod(world, pod_name, needed=reads_pod)
    view = NodeView(world.state)
    values, failed, failures = expression.values(pod, view)
    codes = [0] * len(view) if failed is None else failed.tolist()
    nodes = [
        TriedNode(name, error=failures.sentence(code)) if code else TriedNode(name, value)
        for name, value, code in zip(view.names(), values.tolist(), codes, strict=True)
    ]
    nodes.sort(key=lambda node: (node.value is None, -(node.value or 0), node.name))
    named = pod.key if reads_pod or pod_name else None
    return ExpressionTrial(text, named, expression.in_columns, expression.is_filter, tuple(nodes))


def _compiled(text: str) -> NodeExpression:
    if len(text) > LONGEST:
        raise InputError(f"the expression is longer than {LONGEST} characters")
    try:
        return NodeExpression(text, TRIED_EXPRESSIONS)
    except CompileError as error:
        raise InputError(f"the expression: {'; '.join(complaints(text, error))}") from None


def _pod(world: World, name: str | None, *, needed: bool) -> Pod:
    if name is not None:
        return find_subject(world, name).pod
    if not needed:
        return Pod()
    if len(world.pending) != 1:
        raise InputError(
            f"the expression asks about the pod, and {len(world.pending)} pods wait for a node: "
            "--pod names one"
        )
    return world.pending[0]
