"""The added node affinity of NodeAffinityArgs: its shape, and the rules of its selectors.

Owns the nested fields that a mapping in plugin arguments may have, and the texts about wrong
operators, keys and values. Must not match nodes: that is the plugin's business, on the model's
types, which the configuration does not know.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from moorage.config.field_errors import (
    child,
    invalid,
    not_supported,
)
from moorage.config.types import Int32
from moorage.model.node_selector import PREFERRED, REQUIRED
from moorage.model.spelling import LABEL_VALUE, label_key_errors

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")


class _Shape(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What all shapes share.

    A shape is read and turned back into plain values, with the fields that the API requires filled
    in and empty optional ones left out.
    """


class RequirementShape(_Shape, frozen=True):
    """One requirement of a selector."""

    key: str = ""
    operator: str = ""
    values: list[str] | msgspec.UnsetType = msgspec.UNSET


class NodeSelectorTermShape(_Shape, frozen=True, omit_defaults=True):
    """Requirements that must all hold."""

    match_expressions: list[RequirementShape] = []
    match_fields: list[RequirementShape] = []


class NodeSelectorShape(_Shape, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: list[NodeSelectorTermShape] = []


class PreferredSchedulingTermShape(_Shape, frozen=True):
    """A term that is worth a weight."""

    weight: Int32 = 0
    preference: NodeSelectorTermShape = NodeSelectorTermShape()


class NodeAffinityShape(_Shape, frozen=True, omit_defaults=True):
    """The fields of `pod.spec.affinity.nodeAffinity`."""

    required: NodeSelectorShape | None = msgspec.field(default=None, name=REQUIRED)
    preferred: list[PreferredSchedulingTermShape] = msgspec.field(
        default_factory=list, name=PREFERRED
    )


class LabelSelectorShape(_Shape, frozen=True, omit_defaults=True):
    """The fields of a label selector."""

    match_labels: dict[str, str] = {}
    match_expressions: list[RequirementShape] = []


Requirements = Sequence[Mapping[str, Any]]


def added_affinity_errors(path: str, affinity: Mapping[str, Any]) -> list[str]:
    """What is wrong with an added affinity that has the right shape."""
    errors = []
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms_path = f"{child(path, required)}.nodeSelectorTerms"
    for index, term in enumerate(affinity.get(required, {}).get("nodeSelectorTerms", ())):
        errors += _term_errors(f"{terms_path}[{index}]", term)
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(affinity.get(preferred, ())):
        if weighted.get("weight", 0) != 0:
            term_path = f"{child(path, preferred)}[{index}]"
            errors += _term_errors(term_path, weighted.get("preference", {}))
    return errors


def _term_errors(path: str, term: Mapping[str, Requirements]) -> list[str]:
    errors = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        errors += _label_errors(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.get("matchFields", ())):
        errors += _field_errors(f"{path}.matchFields[{index}]", requirement)
    return errors


def _label_errors(path: str, requirement: Mapping[str, Any]) -> list[str]:
    operator = requirement.get("operator", "")
    if operator not in _LABEL_OPERATORS:
        return [not_supported(f"{path}.operator", operator, _LABEL_OPERATORS)]
    errors = []
    key = requirement.get("key", "")
    if key_errors := label_key_errors(key):
        errors.append(invalid(f"{path}.key", key, "; ".join(key_errors)))
    values = requirement.get("values")
    errors += _count_errors(f"{path}.values", operator, values)
    for index, value in enumerate(values or ()):
        if value_errors := LABEL_VALUE.errors(value):
            errors.append(invalid(f"{path}.values[{index}][{key}]", value, "; ".join(value_errors)))
    return errors


def _count_errors(path: str, operator: str, values: Sequence[str] | None) -> list[str]:
    count = len(values or ())
    if operator in ("In", "NotIn"):
        text = "for 'in', 'notin' operators, values set can't be empty"
        return [invalid(path, values, text)] if count == 0 else []
    if operator in ("Exists", "DoesNotExist"):
        text = "values set must be empty for exists and does not exist"
        return [invalid(path, values, text)] if count != 0 else []
    errors = []
    if count != 1:
        text = "for 'Gt', 'Lt' operators, exactly one value is required"
        errors.append(invalid(path, values, text))
    for index, value in enumerate(values or ()):
        if not _is_int64(value):
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(invalid(f"{path}[{index}]", value, text))
    return errors


def _field_errors(path: str, requirement: Mapping[str, Any]) -> list[str]:
    operator = requirement.get("operator", "")
    if operator not in _FIELD_OPERATORS:
        return [not_supported(f"{path}.operator", operator, _FIELD_OPERATORS)]
    values = requirement.get("values")
    if len(values or ()) != 1:
        return [invalid(f"{path}.values", values, "must have one element")]
    return []


def _is_int64(text: str) -> bool:
    if not re.fullmatch(r"[+-]?[0-9]{1,100}", text):
        return False
    return -(2**63) <= int(text) < 2**63
