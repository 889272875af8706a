"""Expressions in a configuration: a faulty one is refused with its place when the file is read."""

import json

import pytest

from moorage.config import load_config
from moorage.config.expressions import LONGEST
from moorage.config.types import API_VERSION, KIND
from moorage.errors import ConfigError

ARGS = "profiles[0].pluginConfig[0].args"


def refusal(plugin: str, **args: object) -> str:
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}],
    }
    with pytest.raises(ConfigError) as refused:
        load_config(json.dumps(document), "scheduler.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("node.lables.x == 'y'", "line 1, column 5: undefined field 'lables'"),
        ("true &&\n nodes", "line 2, column 2: undeclared reference to 'nodes' (in container '')"),
        ("node.name ==", "line 1, column 13: Syntax error: mismatched input '<EOF>'"),
        ("node.name > 3", "line 1, column 11: found no matching overload for '_>_'"),
        ("node.allocatable.cpu", "must evaluate to bool, not int"),
        ("node.name.matches('(')", "line 1, column 19: invalid matches argument"),
    ],
)
def test_a_faulty_expression_is_refused_with_file_field_place_and_reason(
    expression: str, complaint: str
) -> None:
    text = refusal("ExpressionFilter", expression=expression)
    assert text.startswith(f"scheduler.yaml: {ARGS}.expression: Invalid value: ")
    assert complaint in text
    assert "\n" not in text


def test_every_place_that_is_wrong_is_named() -> None:
    text = refusal("ExpressionScore", expression="node.a + node.b", normalization="Maximum")
    assert "column 5: undefined field 'a'" in text
    assert "column 14: undefined field 'b'" in text
    assert f'{ARGS}.normalization: Unsupported value: "Maximum"' in text


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({}, f"{ARGS}.expression: Required value: a CEL expression over pod and node"),
        ({"expression": " "}, f"{ARGS}.expression: Required value"),
        (
            {"expression": "1" * (LONGEST + 1)},
            f"{ARGS}.expression: Too long: may not be more than {LONGEST} characters",
        ),
        ({"expression": "true"}, "must evaluate to int, not bool"),
        ({"expresion": "1"}, 'unknown field "expresion"'),
        ({"expression": 1}, "expression: expected a string, got 1"),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(args: dict[str, object], complaint: str) -> None:
    assert complaint in refusal("ExpressionScore", **args)


def test_an_expression_nested_too_deeply_is_refused() -> None:
    text = refusal("ExpressionScore", expression="-(" * 3000 + "1")
    assert "expression recursion limit exceeded: 250" in text
