"""Expressions in the arguments of ExpressionFilter and ExpressionScore.

Owns how long one may be and what is said about a faulty one; what it may refer to is in
`expressions.yaml`. Must not evaluate any: the plugins do.
"""

import msgspec

from moorage.cel import CompileError, Environment
from moorage.config.field_errors import invalid, required
from moorage.tables import read_table

LONGEST = 10 * 1024
"""As many characters as resource.k8s.io allows for a selector of devices."""


class _Known(msgspec.Struct, forbid_unknown_fields=True):
    objects: dict[str, dict[str, str]]
    variables: dict[str, str]


_KNOWN = read_table("moorage.config", "expressions.yaml", _Known)


def _environment(*results: str) -> Environment:
    return Environment(_KNOWN.variables, objects=_KNOWN.objects, results=results)


FILTER_EXPRESSIONS = _environment("bool")
SCORE_EXPRESSIONS = _environment("int")
TRIED_EXPRESSIONS = _environment("bool", "int")
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
