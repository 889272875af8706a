"""Node affinity terms: ORed terms, ANDed requirements, and terms that cannot be parsed."""

import pytest

from moorage.errors import SelectorError
from moorage.model.node_selector import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    compile_node_selector,
    compile_preferred,
    compile_term,
)


def label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return NodeSelectorTerm(match_expressions=(requirement,))


def name(operator: str, *values: str) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key="metadata.name", operator=operator, values=values)
    return NodeSelectorTerm(match_fields=(requirement,))


def matches(*terms: NodeSelectorTerm, labels: dict[str, str], node: str = "n1") -> bool:
    return compile_node_selector(NodeSelector(node_selector_terms=terms)).matches(labels, node)


def test_one_matching_term_is_enough() -> None:
    terms = (label("zone", "In", "a"), label("gpu", "Exists"))
    assert matches(*terms, labels={"zone": "b", "gpu": ""})
    assert not matches(*terms, labels={"zone": "b"})


def test_all_requirements_of_a_term_must_hold() -> None:
    term = NodeSelectorTerm(
        match_expressions=(
            NodeSelectorRequirement(key="zone", operator="In", values=("a",)),
            NodeSelectorRequirement(key="cores", operator="Gt", values=("8",)),
        ),
        match_fields=(
            NodeSelectorRequirement(key="metadata.name", operator="NotIn", values=("n1",)),
        ),
    )
    labels = {"zone": "a", "cores": "16"}
    assert matches(term, labels=labels, node="n2")
    assert not matches(term, labels=labels, node="n1")
    assert not matches(term, labels=labels | {"cores": "8"}, node="n2")


def test_no_terms_and_empty_terms_match_no_node() -> None:
    assert not matches(labels={})
    assert not matches(NodeSelectorTerm(), labels={"a": "b"})
    assert matches(NodeSelectorTerm(), label("a", "Exists"), labels={"a": "b"})


@pytest.mark.parametrize(
    ("operator", "values", "node", "expected"),
    [
        ("In", ("n1",), "n1", True),
        ("In", ("n1",), "n2", False),
        ("NotIn", ("n1",), "n1", False),
        ("NotIn", ("n1",), "n2", True),
    ],
)
def test_the_name_of_a_node_can_be_asked_for(
    operator: str, values: tuple[str, ...], node: str, expected: bool
) -> None:
    assert matches(name(operator, *values), labels={}, node=node) is expected


def test_a_node_without_a_name_is_not_asked_for_it() -> None:
    assert matches(name("In", "n1"), labels={}, node="")
    term = NodeSelectorTerm(
        match_expressions=label("a", "Exists").match_expressions,
        match_fields=name("In", "n1").match_fields,
    )
    assert not matches(term, labels={}, node="")


@pytest.mark.parametrize(
    "term",
    [
        pytest.param(label("a", "Is", "b"), id="unknown operator"),
        pytest.param(label("a", "Gt", "b"), id="Gt of a word"),
        pytest.param(label("a", "In"), id="In without values"),
        pytest.param(name("Exists"), id="Exists on a field"),
        pytest.param(name("In", "n1", "n2"), id="two names"),
        pytest.param(name("In"), id="no name"),
    ],
)
def test_a_term_that_cannot_be_parsed_matches_nothing_but_spares_the_others(
    term: NodeSelectorTerm,
) -> None:
    assert compile_term(term).error
    assert not matches(term, labels={"a": "b"})
    assert matches(term, label("a", "Exists"), labels={"a": "b"})


def test_wishes_without_weight_or_content_do_not_count() -> None:
    wishes = (
        PreferredSchedulingTerm(weight=0, preference=label("a", "Is")),
        PreferredSchedulingTerm(weight=5),
        PreferredSchedulingTerm(weight=7, preference=label("a", "Exists")),
    )
    compiled = compile_preferred(wishes)
    assert [wish.weight for wish in compiled] == [7]
    assert compiled[0].term.matches({"a": ""}, "n1")


def test_a_wish_that_cannot_be_parsed_is_an_error() -> None:
    with pytest.raises(SelectorError, match="operator"):
        compile_preferred((PreferredSchedulingTerm(weight=1, preference=label("a", "Is")),))


def test_wishes_that_want_a_number_and_have_none_are_named_by_their_places() -> None:
    wishes = tuple(
        PreferredSchedulingTerm(weight=1, preference=label("a", operator, value))
        for operator, value in (("Gt", "5"), ("Gt", "x"), ("Lt", "y"))
    )
    said = "for 'Gt', 'Lt' operators, the value must be an integer"
    with pytest.raises(SelectorError) as raised:
        compile_preferred(wishes)
    assert str(raised.value) == (
        f'[[1].matchExpressions[0].values[0]: Invalid value: "x": {said}, '
        f'[2].matchExpressions[0].values[0]: Invalid value: "y": {said}]'
    )
