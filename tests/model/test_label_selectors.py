"""Label selectors: every operator, absent keys, and nothing versus everything."""

import pytest

from moorage.errors import SelectorError
from moorage.model.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Selector,
    compile_selector,
    make_requirement,
    parse_int64,
    selector_from_labels,
)


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    requirement = LabelSelectorRequirement(key=key, operator=operator, values=values)
    return LabelSelector(match_expressions=(requirement,))


@pytest.mark.parametrize(
    ("operator", "values", "labels", "matches"),
    [
        pytest.param("In", ("a", "b"), {"k": "b"}, True, id="In, among the values"),
        pytest.param("In", ("a", "b"), {"k": "c"}, False, id="In, another value"),
        pytest.param("In", ("a",), {}, False, id="In, absent key"),
        pytest.param("In", ("",), {"k": ""}, True, id="In, the empty value"),
        pytest.param("In", ("",), {}, False, id="In, absent is not empty"),
        pytest.param("NotIn", ("a",), {"k": "a"}, False, id="NotIn, among the values"),
        pytest.param("NotIn", ("a",), {"k": "b"}, True, id="NotIn, another value"),
        pytest.param("NotIn", ("a",), {}, True, id="NotIn, absent key"),
        pytest.param("Exists", (), {"k": ""}, True, id="Exists, empty value"),
        pytest.param("Exists", (), {"other": "a"}, False, id="Exists, absent key"),
        pytest.param("DoesNotExist", (), {"k": "a"}, False, id="DoesNotExist, present"),
        pytest.param("DoesNotExist", (), {}, True, id="DoesNotExist, absent key"),
    ],
)
def test_an_operator_looks_at_the_value_of_its_key(
    operator: str, values: tuple[str, ...], labels: dict[str, str], matches: bool
) -> None:
    assert compile_selector(expression("k", operator, *values)).matches(labels) is matches


@pytest.mark.parametrize(
    ("operator", "bound", "value", "matches"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Gt", "5", "10", True),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "5", "-7", True),
        ("Gt", "5", "x", False),
        ("Gt", "5", "6.5", False),
        ("Gt", "5", None, False),
        ("Lt", "5", None, False),
        ("Gt", "5", "99999999999999999999", False),
        ("Gt", "005", "+6", True),
    ],
)
def test_numeric_operators_compare_integers_and_nothing_else(
    operator: str, bound: str, value: str | None, matches: bool
) -> None:
    requirement = make_requirement("k", operator, (bound,), numeric=True)
    assert requirement.matches({} if value is None else {"k": value}) is matches


def test_no_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert compile_selector(None) is NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert not NOTHING.matches({})
    assert not NOTHING.matches({"a": "b"})
    assert EVERYTHING.matches({})
    assert EVERYTHING.empty
    assert not NOTHING.empty


def test_all_requirements_must_hold() -> None:
    selector = compile_selector(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(
                LabelSelectorRequirement(key="tier", operator="NotIn", values=("test",)),
            ),
        )
    )
    assert selector.matches({"app": "web"})
    assert not selector.matches({"app": "web", "tier": "test"})
    assert not selector.matches({"tier": "prod"})


def test_equal_meaning_gives_equal_selectors() -> None:
    first = LabelSelector(match_labels={"a": "1", "b": "2"})
    second = LabelSelector(
        match_expressions=(
            LabelSelectorRequirement(key="b", operator="In", values=("2", "2")),
            LabelSelectorRequirement(key="a", operator="In", values=("1",)),
        )
    )
    assert compile_selector(first) == compile_selector(second)
    assert hash(compile_selector(first)) == hash(compile_selector(second))


def test_narrowing_nothing_leaves_nothing() -> None:
    more = (make_requirement("a", "Exists"),)
    assert not NOTHING.and_also(more).matches({"a": "1"})
    assert EVERYTHING.and_also(more) == Selector(more)


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        pytest.param("In", (), id="In without values"),
        pytest.param("NotIn", (), id="NotIn without values"),
        pytest.param("Exists", ("a",), id="Exists with values"),
        pytest.param("DoesNotExist", ("a",), id="DoesNotExist with values"),
        pytest.param("Gt", ("1",), id="Gt outside of node selectors"),
        pytest.param("in", ("a",), id="lower case"),
        pytest.param("", ("a",), id="no operator"),
        pytest.param("In", ("a b",), id="blank in a value"),
        pytest.param("In", ("-a",), id="value begins with a dash"),
        pytest.param("In", ("x" * 64,), id="long value"),
    ],
)
def test_what_the_api_refuses_is_refused(operator: str, values: tuple[str, ...]) -> None:
    with pytest.raises(SelectorError):
        compile_selector(expression("k", operator, *values))


@pytest.mark.parametrize("values", [(), ("1", "2"), ("5", "5"), ("x",), ("1.5",), ("-5",)])
def test_numeric_operators_need_exactly_one_integer_that_may_stand_in_a_label(
    values: tuple[str, ...],
) -> None:
    with pytest.raises(SelectorError):
        make_requirement("k", "Gt", values, numeric=True)


@pytest.mark.parametrize(
    "key",
    ["", "a/b/c", "/a", "a/", "-a", "a b", "x" * 64, f"{'d' * 254}/a", "UPPER.case/a", "a..b/c"],
)
def test_a_bad_key_is_refused(key: str) -> None:
    with pytest.raises(SelectorError):
        compile_selector(LabelSelector(match_labels={key: "v"}))


@pytest.mark.parametrize("key", ["a", "A.b_c-d", "example.com/a", "x" * 63, "kubernetes.io/os"])
def test_a_good_key_is_accepted(key: str) -> None:
    assert compile_selector(LabelSelector(match_labels={key: ""})).matches({key: ""})


def test_a_selector_from_plain_labels_is_not_checked() -> None:
    assert selector_from_labels({"a b": "c d"}).matches({"a b": "c d"})
    assert selector_from_labels({}) == EVERYTHING


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-5", -5),
        ("+5", 5),
        ("007", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", None),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775809", None),
        ("", None),
        ("+", None),
        ("1_000", None),
        (" 1", None),
        ("٣", None),
        ("1e3", None),
        ("9" * 5000, None),
        ("0" * 5000 + "1", 1),
    ],
)
def test_integers_are_read_as_go_reads_them(text: str, number: int | None) -> None:
    assert parse_int64(text) == number
