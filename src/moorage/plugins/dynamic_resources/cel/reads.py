"""Which attributes of a device an expression can see, found out from its text alone.

Owns that analysis, which is on the safe side: wherever it is not plain that one named attribute is
read and nothing else, the answer is that everything may be.
"""

from dataclasses import fields
from typing import Any

from moorage.plugins.dynamic_resources.cel.interface import Attribute, Reads
from moorage.plugins.dynamic_resources.cel.syntax import Index, Literal, Name, Node, Select

_ATTRIBUTES = "attributes"


def attributes_read(tree: Node, variable: str) -> Reads:
    """The attributes of the device in a variable that a parsed expression reads."""
    found: set[Attribute] = set()
    try:
        return frozenset(found) if _gather(tree, variable, found) else None
    except RecursionError:  # deeper than can be looked through
        return None


def _gather(part: Any, variable: str, found: set[Attribute]) -> bool:
    """Add what a part of an expression reads; False if that cannot be told."""
    if isinstance(part, tuple):
        return all(_gather(one, variable, found) for one in part)
    if not hasattr(part, "position"):
        return True  # a field that is not an expression
    attribute = _attribute(part, variable)
    if attribute is not None:
        found.add(attribute)
        return True
    if isinstance(part, Select) and _is_device(part.operand, variable):
        return part.field != _ATTRIBUTES
    if isinstance(part, Name):
        return part.name != variable
    return all(_gather(getattr(part, one.name), variable, found) for one in fields(part))


def _attribute(part: Any, variable: str) -> Attribute | None:
    """`device.attributes["domain"].identifier`, or with the identifier in brackets as well."""
    if isinstance(part, Select) and not part.optional:
        identifier: object = part.field
    elif isinstance(part, Index) and not part.optional and isinstance(part.key, Literal):
        identifier = part.key.value
    else:
        return None
    domain = part.operand
    if (
        isinstance(identifier, str)
        and isinstance(domain, Index)
        and not domain.optional
        and isinstance(domain.key, Literal)
        and isinstance(domain.key.value, str)
        and isinstance(domain.operand, Select)
        and domain.operand.field == _ATTRIBUTES
        and not domain.operand.optional
        and _is_device(domain.operand.operand, variable)
    ):
        return domain.key.value, identifier
    return None


def _is_device(part: Any, variable: str) -> bool:
    return isinstance(part, Name) and part.name == variable
