"""Selectors read straight from the API's form, requirement by requirement."""

from collections.abc import Callable, Mapping, Sequence

from moorage.model.labels import LabelSelector
from moorage.model.node import Node
from moorage.model.node_selector import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.model.pod import Pod

Test = Callable[[Mapping[str, str]], bool]
Tests = Sequence[Test] | None
"""Tests that must all pass; None matches nothing, an empty list everything."""


def tests_of(selector: LabelSelector | None) -> Tests:
    """A label selector as a list of tests."""
    if selector is None:
        return None
    tests: list[Test] = [_equals(key, value) for key, value in selector.match_labels.items()]
    tests += [_expression(e.key, e.operator, e.values) for e in selector.match_expressions]
    return tests


def equalities(labels: Mapping[str, str]) -> list[Test]:
    """The tests for exactly these labels."""
    return [_equals(key, value) for key, value in labels.items()]


def passes(tests: Tests, labels: Mapping[str, str]) -> bool:
    """Do the labels pass all tests?"""
    return tests is not None and all(test(labels) for test in tests)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Does a label selector match?"""
    return passes(tests_of(selector), labels)


def _equals(key: str, value: str) -> Test:
    return lambda labels: key in labels and labels[key] == value


def _expression(key: str, operator: str, values: Sequence[str]) -> Test:
    if operator == "In":
        return lambda labels: key in labels and labels[key] in values
    if operator == "NotIn":
        return lambda labels: key not in labels or labels[key] not in values
    if operator == "Exists":
        return lambda labels: key in labels
    if operator == "DoesNotExist":
        return lambda labels: key not in labels
    raise ValueError(operator)


def admits(pod: Pod, node: Node) -> bool:
    """Do the pod's node selector and its required node affinity let it onto the node?"""
    if any(node.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    required = required_terms(pod)
    return required is None or any_term_matches(required, node)


def required_terms(pod: Pod) -> NodeSelector | None:
    """The pod's required node affinity."""
    if pod.spec.affinity is None or pod.spec.affinity.node_affinity is None:
        return None
    return pod.spec.affinity.node_affinity.required


def any_term_matches(selector: NodeSelector, node: Node) -> bool:
    """Does any term match the node?"""
    return any(term_matches(term, node) for term in selector.node_selector_terms)


def term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    """Does one term match? An empty one does not, and neither does one that makes no sense."""
    if not term.match_expressions and not term.match_fields:
        return False
    if not parses(term):
        return False
    for expression in term.match_expressions:
        if not _label_matches(expression, node.labels):
            return False
    for expression in term.match_fields:
        value = node.name if expression.key == "metadata.name" else ""
        if (value in expression.values) != (expression.operator == "In"):
            return False
    return True


def parses(term: NodeSelectorTerm) -> bool:
    """Would upstream's parser take the term?"""
    for expression in term.match_expressions:
        count = len(expression.values)
        if expression.operator in ("In", "NotIn"):
            if count == 0:
                return False
        elif expression.operator in ("Exists", "DoesNotExist"):
            if count != 0:
                return False
        elif expression.operator in ("Gt", "Lt"):
            if count != 1 or _number(expression.values[0]) is None:
                return False
        else:
            return False
    return all(
        expression.operator in ("In", "NotIn") and len(expression.values) == 1
        for expression in term.match_fields
    )


def _label_matches(expression: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    if expression.operator not in ("Gt", "Lt"):
        return _expression(expression.key, expression.operator, expression.values)(labels)
    number = _number(labels.get(expression.key, ""))
    bound = _number(expression.values[0])
    if number is None or bound is None:
        return False
    return number > bound if expression.operator == "Gt" else number < bound


def _number(text: str) -> int | None:
    try:
        return int(text) if text.strip() == text and "_" not in text else None
    except ValueError:
        return None
