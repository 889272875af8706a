"""A selector's result as the plain boolean it has to be, or why it is none, in cel-go's words."""

from moorage.plugins.dynamic_resources.cel.errors import EvaluationError
from moorage.plugins.dynamic_resources.cel.values import Optional, TypeValue, kind_of

_FROM = {
    "bytes": "Bytes",
    "double": "Double",
    "list": "list",
    "map": "map",
    "null_type": "'null_type'",
    "kubernetes.NamedFormat": "'Format'",
}
"""Where complaints do not give the last part of a type's name in quotes."""


def native_bool(result: object) -> bool:
    """The boolean that a result stands for; that in an optional counts."""
    value = result
    while isinstance(value, Optional) and value.present:
        value = value.value
    if isinstance(value, bool):
        return value
    raise EvaluationError(
        f"CEL result of type {kind_of(result)} could not be converted to bool: {_complaint(value)}"
    )


def _complaint(value: object) -> str:
    if isinstance(value, Optional):
        return "optional.none() dereference"
    if isinstance(value, TypeValue):
        return "type conversion not supported for 'type'"
    kind = kind_of(value)
    if kind in ("int", "uint"):
        return f"unsupported type conversion from '{kind}' to bool"
    if kind == "string":
        return "unsupported native conversion from string to 'bool'"
    named = _FROM.get(kind) or f"'{kind.rpartition('.')[2]}'"
    return f"type conversion error from {named} to 'bool'"
