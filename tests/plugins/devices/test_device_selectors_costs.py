"""What evaluations cost and where they end; the costs are those that upstream's program counted.

Recorded with k8s.io/dynamic-resource-allocation/cel v0.37.1 on the device below.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from moorage.cel import MAX_COST, CompileError, EvaluationError
from moorage.model.devices import Device
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors
from plugins.devices.device_selector_costs import COSTS

EXCEEDED = "operation cancelled: actual cost limit exceeded"
DIGITS = "9" * 5000
SELECTORS = DeviceSelectors()


@pytest.fixture(scope="module")
def device() -> Mapping[str, Any]:
    attributes = {
        "model": {"string": "a100"},
        "numa": {"int": 1},
        "healthy": {"bool": True},
        "driverVersion": {"version": "1.5.0"},
        "long": {"string": "a" * 63 + "!"},
    }
    source = {
        "name": "d",
        "attributes": attributes,
        "capacity": {"memory": {"value": "40Gi"}},
    }
    return SELECTORS.variables(msgspec.convert(source, Device), "gpu.example.com")


def answer(expression: str, device: Mapping[str, Any]) -> bool | str:
    try:
        return SELECTORS.compile(expression).evaluate_bool(device)
    except EvaluationError as error:
        return str(error)


def doubled(times: int, start: str, use: str) -> str:
    """An expression over `$`, which is `start` doubled so many times."""
    steps = "".join(f"cel.bind(a{i + 1},a{i}+a{i}," for i in range(times))
    body = use.replace("$", f"a{times}")
    return f"cel.bind(a0,{start},{steps}{body}{')' * (times + 1)}"


def shared(levels: int, use: str) -> str:
    """An expression over `$`, a list of lists in which every list occurs three times."""
    steps = "".join(f"cel.bind(a{i + 1},[a{i},a{i},a{i}]," for i in range(levels))
    body = use.replace("$", f"a{levels}")
    return f"cel.bind(a0,[1],{steps}{body}{')' * (levels + 1)}"


@pytest.mark.parametrize(("expression", "cost"), COSTS)
def test_an_evaluation_costs_what_it_costs_upstream(
    expression: str, cost: int, device: Mapping[str, Any]
) -> None:
    selector = SELECTORS.compile(expression)
    assert selector.cost(device) == cost


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("lists.range(249997).all(i,true)", True),
        ("lists.range(249998).all(i,true)", EXCEEDED),
        ("lists.range(61).all(a,lists.range(61).all(b,lists.range(61).all(c,true)))", True),
        ("lists.range(62).all(a,lists.range(62).all(b,lists.range(62).all(c,true)))", EXCEEDED),
        ("lists.range(706).distinct().size()==706", True),
        ("lists.range(707).distinct().size()==707", EXCEEDED),
        ("[1,2].all(i,1/0>1)||lists.range(1000).map(a,lists.range(1000)).size()>0", EXCEEDED),
    ],
)
def test_an_evaluation_ends_where_upstream_ends_it(
    expression: str, result: bool | str, device: Mapping[str, Any]
) -> None:
    assert answer(expression, device) == result


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(1000000).size()==1",
        doubled(30, "[1,2]", "$.size()==1"),
        doubled(30, '"aaaaaaaa"', "$.size()==1"),
        doubled(16, '"aaaaaaaa"', f'$.replace("a","{"b" * 5000}").size()==1'),
        doubled(16, '"aaaaaaaa"', "lists.range(1000).map(i,$).join().size()==1"),
        doubled(16, '"aaaaaaaa"', f'"{"%s" * 1000}".format(lists.range(1000).map(i,$))=="a"'),
        '"%.999999999f".format([1.0])=="a"',
        f'"%.{DIGITS}f".format([1.0])=="a"',
        shared(25, "$==$"),
        shared(25, "$ in [$]"),
        shared(25, "[$].indexOf($)==0"),
        shared(25, '"%s".format([$])=="a"'),
        shared(25, "[$].flatten(30).size()==1"),
        shared(25, "$.distinct().size()==1"),
    ],
)
def test_what_would_fill_the_memory_or_take_for_ever_counts_as_too_costly(
    expression: str, device: Mapping[str, Any]
) -> None:
    assert answer(expression, device) == EXCEEDED


@pytest.mark.parametrize(
    "expression",
    [
        f'quantity("{DIGITS}")==quantity("1")',
        f'semver("{DIGITS}.0.0").major()==1',
        f'semver("1.0.0-{DIGITS}").isLessThan(semver("1.0.0-1"))',
        f'semver("1.0.0-{2**64}").isLessThan(semver("1.0.0-1"))',
        f'cidr("1.2.3.0/{DIGITS}").prefixLength()==4',
        f'ip("1.2.3.{DIGITS}").family()==4',
        f'duration("{DIGITS}s")==duration("1s")',
        f'int("{DIGITS}")==1',
        f"{DIGITS}==1",
        f"0x{DIGITS}==1",
    ],
)
def test_a_number_of_thousands_of_digits_is_an_error_of_the_expression(
    expression: str, device: Mapping[str, Any]
) -> None:
    with pytest.raises((CompileError, EvaluationError)):
        SELECTORS.compile(expression).evaluate_bool(device)


@pytest.mark.parametrize(
    "expression",
    [
        "lists.range(200).all(a,lists.range(200).all(b,true))",
        doubled(14, '"aaaaaaaa"', '$.findAll("a*b|.").size()==1'),
        doubled(17, "[1]", "lists.range(1000).all(i,($+$).size()>0)"),
    ],
)
def test_a_checkpoint_is_called_all_along_and_can_end_the_evaluation(
    expression: str, device: Mapping[str, Any]
) -> None:
    class EndedError(Exception):
        pass

    calls = 0

    def checkpoint() -> None:
        nonlocal calls
        calls += 1
        if calls == 20:
            raise EndedError

    with pytest.raises(EndedError):
        SELECTORS.compile(expression).evaluate_bool(device, checkpoint=checkpoint)


def test_the_limit_is_that_of_the_api() -> None:
    assert MAX_COST == 1_000_000
