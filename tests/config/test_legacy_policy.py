"""Reading a scheduling policy, and refusing what v1.21 refused, in its words."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.config.legacy_policy import decode_policy, parse_policy
from moorage.config.legacy_policy_conversion import convert_policy
from moorage.errors import ConfigError

HEADER = {"apiVersion": "v1", "kind": "Policy"}
RATIO = {"requestedToCapacityRatioArguments": {"shape": [{"utilization": 0, "score": 5}]}}


def message(**fields: Any) -> str:
    with pytest.raises(ConfigError) as error:
        convert_policy({**HEADER, **fields})
    return str(error.value)


def test_yaml_and_json_read_the_same() -> None:
    text = "apiVersion: v1\nkind: Policy\npredicates:\n- name: HostName\n"
    as_json = json.dumps({**HEADER, "predicates": [{"name": "HostName"}]})
    assert parse_policy(text) == parse_policy(as_json)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "invalid policy: Object 'Kind' is missing", id="empty"),
        pytest.param("kind: Policy", "invalid policy: Object 'apiVersion' is missing", id="v"),
        pytest.param("- a", "invalid policy: expected a map, got a list", id="a list"),
        pytest.param("a: [", "invalid policy: yaml: line", id="broken YAML"),
        pytest.param(
            "apiVersion: v1\nkind: Pod",
            'invalid policy: no kind "Pod" is registered for version "v1"; a scheduling policy has '
            'kind "Policy" and apiVersion "v1"',
            id="another kind",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Policy\npredicate: []",
            'invalid policy: strict decoding error: unknown field "predicate"',
            id="an unknown field",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Policy\npredicates: [{name: 3}]",
            "invalid policy: predicates[0].name: expected a string, got 3",
            id="a wrong type",
        ),
        pytest.param(
            '{"apiVersion": "v1", "kind": "Policy", "kind": "Policy"}',
            'invalid policy: strict decoding error: duplicate field "kind"',
            id="a repeated key",
        ),
    ],
)
def test_cli_174_a_text_that_is_no_policy(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        decode_policy(parse_policy(text))
    assert str(error.value).startswith(expected)


def test_cli_176_both_versions_of_the_schema_are_read() -> None:
    assert decode_policy({**HEADER, "apiVersion": "kubescheduler.config.k8s.io/v1"}) == (
        decode_policy(HEADER)
    )


def test_cli_181_the_symmetric_weight_has_limits() -> None:
    path = "hardPodAffinitySymmetricWeight: Invalid value"
    assert message(hardPodAffinitySymmetricWeight=101) == f"{path}: 101: not in valid range [0-100]"
    assert message(hardPodAffinitySymmetricWeight=-1) == f"{path}: -1: not in valid range [0-100]"


@pytest.mark.parametrize("weight", [0, -1, 2**63 // 10])
def test_cli_183_the_weight_of_a_priority_must_be_positive(weight: int) -> None:
    priority = {"name": "ImageLocalityPriority", "weight": weight}
    assert message(priorities=[priority]) == (
        "priority ImageLocalityPriority should have a positive weight applied to it "
        "or it has overflown"
    )


def test_cli_183_a_weight_that_no_plugin_can_have_is_refused() -> None:
    priority = {"name": "ImageLocalityPriority", "weight": 2**31}
    assert message(priorities=[priority]) == (
        "priority ImageLocalityPriority has weight 2147483648, "
        "but a plugin's weight is at most 2147483647"
    )


@pytest.mark.parametrize(
    ("argument", "count"),
    [({}, 0), ({"serviceAffinity": {"labels": ["a"]}, "labelsPresence": {"labels": ["a"]}}, 2)],
)
def test_cli_184_a_custom_predicate_has_one_argument(argument: Any, count: int) -> None:
    assert message(predicates=[{"name": "Mine", "argument": argument}]) == (
        f'exactly 1 predicate argument is required, numArgs: {count}, predicate "Mine"'
    )


@pytest.mark.parametrize(
    ("priorities", "expected"),
    [
        pytest.param(
            [{"name": "Mine", "weight": 1, "argument": {}}],
            "no priority arguments set for priority Mine",
            id="none",
        ),
        pytest.param(
            [{"name": "Mine", "weight": 1, "argument": {**RATIO, "labelPreference": {}}}],
            'exactly 1 priority argument is required, numArgs: 2, priority "Mine"',
            id="two",
        ),
        pytest.param(
            [
                {"name": "A", "weight": 1, "argument": RATIO},
                {"name": "B", "weight": 1, "argument": RATIO},
            ],
            'priority "B" redeclares custom priority "RequestedToCapacityRatio", from: "A"',
            id="two curves",
        ),
        pytest.param(
            [
                {"name": "A", "weight": 1, "argument": {"labelPreference": {"label": "x"}}},
                {"name": "B", "weight": 2, "argument": {"labelPreference": {"label": "y"}}},
            ],
            'LabelPreference  priority "B" has a different weight with "A"',
            id="labels of two weights",
        ),
        pytest.param(
            [
                {"name": "A", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "x"}}},
                {"name": "B", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "y"}}},
            ],
            'ServiceAntiAffinity  priority "B" has a different weight with "A"',
            id="services of two weights",
        ),
    ],
)
def test_cli_185_custom_priorities_of_a_kind_must_agree(priorities: Any, expected: str) -> None:
    assert message(priorities=priorities) == expected


def test_cli_186_names_that_nobody_knows_are_refused() -> None:
    assert message(predicates=[{"name": "Tide"}]) == 'predicate type not found for "Tide"'
    assert message(priorities=[{"name": "Tide", "weight": 1}]) == (
        'priority type not found for "Tide"'
    )
    ratio = {"name": "RequestedToCapacityRatioPriority", "weight": 1}
    assert message(priorities=[ratio]) == (
        'priority type not found for "RequestedToCapacityRatioPriority"'
    )


def test_all_errors_are_told_at_once() -> None:
    extenders = [{"urlPrefix": "http://x", "prioritizeVerb": "p", "bindVerb": "b"}] * 2
    assert message(
        priorities=[{"name": "ImageLocalityPriority"}],
        extenders=extenders,
        hardPodAffinitySymmetricWeight=200,
    ) == (
        "[priority ImageLocalityPriority should have a positive weight applied to it or it has "
        "overflown, "
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it, "
        "extenders[1].weight: Invalid value: 0: must have a positive weight applied to it, "
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can '
        "implement bind, "
        "hardPodAffinitySymmetricWeight: Invalid value: 200: not in valid range [0-100]]"
    )


def test_labels_both_wanted_and_unwanted_are_refused() -> None:
    predicates = [
        {"name": "A", "argument": {"labelsPresence": {"labels": ["x", "y"], "presence": True}}},
        {"name": "B", "argument": {"labelsPresence": {"labels": ["y"]}}},
    ]
    assert message(predicates=predicates) == (
        'presentLabels[1]: Invalid value: "y": conflict with absentLabels[0]'
    )


def test_a_curve_out_of_range_is_refused_before_it_is_written() -> None:
    shape = [{"utilization": 0, "score": 11}]
    argument = {"requestedToCapacityRatioArguments": {"shape": shape}}
    assert message(priorities=[{"name": "A", "weight": 1, "argument": argument}]) == (
        'initializing plugin "NodeResourcesFit": scoringStrategy.requestedToCapacityRatio.shape[0]'
        ".score: Invalid value: 11: not in valid range [0, 10]"
    )


@settings(deadline=None)
@given(
    st.sampled_from(["predicates", "priorities", "extenders", "alwaysCheckAllPredicates"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "weight", "argument", "labelsPresence", "tlsConfig"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=8,
    ),
)
def test_any_value_is_converted_or_refused_in_one_line(field: str, value: Any) -> None:
    shown = ""
    try:
        convert_policy({**HEADER, field: value})
    except ConfigError as error:
        shown = str(error)
    assert "\n" not in shown
