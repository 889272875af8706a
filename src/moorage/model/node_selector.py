"""Node affinity: terms that are ORed, each an AND of label and field requirements.

A term that cannot be parsed selects nothing but does not spoil its siblings, and an empty term
selects nothing: both are upstream's rules.
"""

from collections.abc import Mapping

import msgspec

from moorage.errors import SelectorError
from moorage.model.labels import (
    NUMERIC_OPERATORS,
    Labels,
    LabelSelectorRequirement,
    Requirement,
    make_requirement,
    parse_int64,
)
from moorage.model.meta import Int32, Object

NAME_FIELD = "metadata.name"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class NodeSelectorRequirement(LabelSelectorRequirement, frozen=True):
    """One expression as the API writes it; its operators may compare numbers as well."""


class NodeSelectorTerm(Object, frozen=True):
    """One alternative as the API writes it."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    @property
    def empty(self) -> bool:
        """A term without any requirement selects no node."""
        return not self.match_expressions and not self.match_fields


class NodeSelector(Object, frozen=True):
    """Alternatives as the API writes them."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Object, frozen=True):
    """A weighted wish for nodes."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinitySpec(Object, frozen=True):
    """`spec.affinity.nodeAffinity`, also the `addedAffinity` of the NodeAffinity plugin."""

    required: NodeSelector | None = msgspec.field(default=None, name=REQUIRED)
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(default=(), name=PREFERRED)


class NodeTerm(msgspec.Struct, frozen=True):
    """A compiled term; `error` says why it can match nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    error: str = ""

    def matches(self, labels: Labels, name: str) -> bool:
        """Does a node with these labels and this name pass every requirement?"""
        if self.error or not all(r.matches(labels) for r in self.labels):
            return False
        # A node without a name stands for "some node with these labels": volumes are matched so,
        # and upstream then leaves field requirements out.
        return not name or all(r.matches(_fields_of(r, name)) for r in self.fields)


class CompiledNodeSelector(msgspec.Struct, frozen=True):
    """Alternatives, any of which admits a node."""

    terms: tuple[NodeTerm, ...] = ()

    def matches(self, labels: Labels, name: str) -> bool:
        """Does any term admit the node?"""
        return any(term.matches(labels, name) for term in self.terms)


class WeightedTerm(msgspec.Struct, frozen=True):
    """A compiled wish."""

    weight: int
    term: NodeTerm


def compile_term(term: NodeSelectorTerm) -> NodeTerm:
    """A term as a comparable value; its parse error, if any, becomes part of it."""
    try:
        labels = tuple(
            make_requirement(expr.key, expr.operator, expr.values, numeric=True)
            for expr in term.match_expressions
        )
        fields = tuple(_field_requirement(expr) for expr in term.match_fields)
    except SelectorError as error:
        return NodeTerm(error=str(error))
    return NodeTerm(labels, fields)


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """All terms that could select something."""
    return CompiledNodeSelector(
        tuple(compile_term(term) for term in selector.node_selector_terms if not term.empty)
    )


def compile_preferred(terms: tuple[PreferredSchedulingTerm, ...]) -> tuple[WeightedTerm, ...]:
    """Wishes that count; raises `SelectorError` as the API's parser would, in its words."""
    compiled = []
    errors: list[str] = []
    for number, wish in enumerate(terms):
        if wish.weight == 0 or wish.preference.empty:
            continue
        term = compile_term(wish.preference)
        if term.error:
            errors += _not_integers(wish.preference, f"[{number}]") or [term.error]
        compiled.append(WeightedTerm(wish.weight, term))
    if errors:
        raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return tuple(compiled)


def _not_integers(term: NodeSelectorTerm, path: str) -> list[str]:
    """What the parser says of the one mistake that the API lets through."""
    return [
        f'{path}.matchExpressions[{number}].values[0]: Invalid value: "{expr.values[0]}": for '
        "'Gt', 'Lt' operators, the value must be an integer"
        for number, expr in enumerate(term.match_expressions)
        if expr.operator in NUMERIC_OPERATORS
        and len(expr.values) == 1
        and parse_int64(expr.values[0]) is None
    ]


def _field_requirement(expr: NodeSelectorRequirement) -> Requirement:
    if expr.operator not in ("In", "NotIn"):
        raise SelectorError(
            f"operator: Unsupported value: {expr.operator!r}: supported values: In, NotIn"
        )
    if len(expr.values) != 1:
        raise SelectorError("values: must have one element")
    return Requirement(expr.key, expr.operator, expr.values)


def _fields_of(requirement: Requirement, name: str) -> Mapping[str, str]:
    # A field selector compares with "" where the field is unknown, it does not ask for presence.
    return {NAME_FIELD: name, requirement.key: name if requirement.key == NAME_FIELD else ""}
