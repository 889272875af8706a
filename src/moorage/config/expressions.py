"""Expressions in the arguments of ExpressionFilter and ExpressionScore.

Owns what such an expression may refer to, how long it may be, and what is said about a faulty one.
Must not evaluate any: the plugins do.
"""

from moorage.cel import CompileError, Environment
from moorage.config.field_errors import invalid, required

LONGEST = 10 * 1024
"""As many characters as resource.k8s.io allows for a selector of devices."""

_AMOUNTS = "map(string, int)"
_TEXTS = "map(string, string)"
_POD = "moorage.Pod"
_NODE = "moorage.Node"
_OBJECTS = {
    _POD: {
        "name": "string",
        "namespace": "string",
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "requests": _AMOUNTS,
        "priority": "int",
    },
    _NODE: {
        "name": "string",
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "capacity": _AMOUNTS,
        "allocatable": _AMOUNTS,
        "requested": _AMOUNTS,
        "pods": f"list({_POD})",
    },
}
_VARIABLES = {"pod": _POD, "node": _NODE}

FILTER_EXPRESSIONS = Environment(_VARIABLES, objects=_OBJECTS, results=("bool",))
SCORE_EXPRESSIONS = Environment(_VARIABLES, objects=_OBJECTS, results=("int",))
TRIED_EXPRESSIONS = Environment(_VARIABLES, objects=_OBJECTS, results=("bool", "int"))
"""For those who try one before they know which plugin it is for."""


def expression_errors(path: str, expression: str, environment: Environment) -> list[str]:
    """What is wrong with an expression; the path is its field's."""
    if not expression.strip():
        return [required(path, "a CEL expression over pod and node")]
    if len(expression) > LONGEST:
        return [f"{path}: Too long: may not be more than {LONGEST} characters"]
    try:
        environment.compile(expression)
    except CompileError as error:
        return [invalid(path, expression, text) for text in complaints(expression, error)]
    return []


def complaints(expression: str, error: CompileError) -> list[str]:
    """What is wrong and where, one text for each place."""
    if not error.issues:
        return [str(error)]
    found = []
    for issue in sorted(error.issues, key=lambda issue: issue.position):
        before = expression[: issue.position]
        line, column = before.count("\n") + 1, issue.position - before.rfind("\n")
        found.append(f"line {line}, column {column}: {issue.message}")
    return found
