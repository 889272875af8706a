"""Environments: what expressions may refer to, what they give, cost and depend on."""

import subprocess
import sys
from typing import Any

import pytest

from moorage.cel import CompileError, Environment, EvaluationError, Function

POD_AND_NODE = Environment(
    {"pod": "Pod", "node": "Node"},
    objects={
        "Pod": {"name": "string", "labels": "map(string, string)", "priority": "int"},
        "Node": {"name": "string", "allocatable": "map(string, int)"},
    },
    results=("bool", "int", "double", "dyn"),
)
POD = {"name": "web-0", "labels": {"app": "web"}, "priority": 7}
NODE = {"name": "n1", "allocatable": {"cpu": 4}}


def evaluated(expression: str, environment: Environment = POD_AND_NODE) -> Any:
    return environment.compile(expression).evaluate({"pod": POD, "node": NODE})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('pod.labels["app"] == "web" && node.name.startsWith("n")', True),
        ("pod.priority + node.allocatable.cpu", 11),
        ("double(node.allocatable.cpu) / 8.0", 0.5),
        ("has(node.allocatable.gpu) ? 1 : pod.name.size()", 5),
    ],
)
def test_an_expression_is_evaluated_with_the_variables_of_its_environment(
    expression: str, value: object
) -> None:
    found = evaluated(expression)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (
            "pod.name ==\n  nod.name",
            "compilation failed: ERROR: <input>:2:3: "
            "undeclared reference to 'nod' (in container '')\n"
            " |   nod.name\n | ..^",
        ),
        (
            "node.zone == 'a'",
            "compilation failed: ERROR: <input>:1:5: undefined field 'zone'\n"
            " | node.zone == 'a'\n | ....^",
        ),
        ("pod.name", "must evaluate to bool or int or double or the unknown type, not string"),
        (
            'duration("x") == duration("y") || int("x") == 1',
            "compilation failed: ERROR: <input>:1:10: invalid duration argument\n"
            ' | duration("x") == duration("y") || int("x") == 1\n | .........^\n'
            "ERROR: <input>:1:27: invalid duration argument\n"
            ' | duration("x") == duration("y") || int("x") == 1\n | ..........................^',
        ),
        (
            'int("x") == 1',
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
    ],
)
def test_what_does_not_compile_is_refused_with_its_place(expression: str, message: str) -> None:
    for _ in range(2):  # a failure is kept, and told again
        with pytest.raises(CompileError) as refused:
            POD_AND_NODE.compile(expression)
        assert str(refused.value) == message


def test_the_places_of_complaints_are_numbers_too() -> None:
    with pytest.raises(CompileError) as refused:
        POD_AND_NODE.compile("nod.name == 'a' || pods.name == 'b'")
    assert [issue.position for issue in refused.value.issues] == [0, 19]
    assert refused.value.issues[1].message == "undeclared reference to 'pods' (in container '')"


def test_an_evaluation_ends_at_the_limit_it_is_given() -> None:
    program = POD_AND_NODE.compile("[1, 2, 3].all(i, i < pod.priority)")
    variables = {"pod": POD, "node": NODE}
    cost = program.cost(variables)
    assert program.evaluate(variables, cost_limit=cost) is True
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        program.evaluate(variables, cost_limit=cost - 1)


def test_a_small_limit_ends_a_long_evaluation_early() -> None:
    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        calls += 1

    program = Environment({}).compile("lists.range(200000).all(i, i >= 0)")
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        program.evaluate({}, cost_limit=100, checkpoint=checkpoint)
    assert calls == 0


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (
            "dyn(1)",
            "int could not be converted to bool: unsupported type conversion from 'int' to bool",
        ),
        ("optional.of(true)", True),
        (
            "optional.none()",
            "optional_type could not be converted to bool: optional.none() dereference",
        ),
    ],
)
def test_where_only_a_boolean_will_do_other_results_are_errors(
    expression: str, result: bool | str
) -> None:
    environment = Environment({}, results=("bool", "dyn", "optional(bool)", "optional(dyn)"))
    program = environment.compile(expression)
    if result is True:
        assert program.evaluate_bool({}) is True
        return
    with pytest.raises(EvaluationError) as failed:
        program.evaluate_bool({})
    assert str(failed.value) == f"CEL result of type {result}"


def test_an_environment_may_bring_functions_of_its_own() -> None:
    double = Function("int.twice() -> int", lambda number: number * 2)
    environment = Environment({"pod": "dyn", "node": "dyn"}, functions=(double,))
    assert evaluated("2.twice() == 4 && pod.priority.twice() == 14", environment)
    with pytest.raises(CompileError, match="undeclared reference to 'twice'"):
        POD_AND_NODE.compile("2.twice() == 4")


@pytest.mark.parametrize(
    ("expression", "paths"),
    [
        ("true", set()),
        ("pod.name == node.name", {("pod", "name"), ("node", "name")}),
        ('node.allocatable["cpu"] > 3', {("node", "allocatable", "cpu")}),
        ("node.allocatable[pod.name] > 3", {("node", "allocatable"), ("pod", "name")}),
        (
            "node.allocatable.all(name, name == pod.name)",
            {("node", "allocatable"), ("pod", "name")},
        ),
        ("cel.bind(n, node, n.name == 'a')", {("node",)}),
        ("pod.labels.?app.orValue('') == ''", {("pod", "labels", "app")}),
    ],
)
def test_what_an_expression_depends_on_is_known(
    expression: str, paths: set[tuple[object, ...]]
) -> None:
    assert POD_AND_NODE.compile(expression).reads == frozenset(paths)


def test_declaring_an_environment_does_not_load_the_compiler() -> None:
    code = (
        "import sys; from moorage.cel import Environment; Environment({'pod': 'dyn'});"
        "assert 'moorage.cel.program' not in sys.modules and 're2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
