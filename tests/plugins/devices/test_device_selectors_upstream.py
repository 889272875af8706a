"""CEL where the API server does what one might not expect; every answer here is one of its own."""

import pytest

from moorage.cel import CompileError, EvaluationError
from moorage.model.devices import ResourceSlice
from plugins.devices.device_objects import DRIVER
from plugins.devices.device_selector_asking import SELECTORS, ask, offering

A = f'device.attributes["{DRIVER}"]'
C = f'device.capacity["{DRIVER}"]'
NO_OVERLOAD = "no such overload"
UNHASHABLE = "internal error: runtime error: hash of unhashable type"


@pytest.fixture(scope="module")
def offered() -> ResourceSlice:
    return offering(driverVersion={"version": "1.5.0"})


def complaint(expression: str, offered: ResourceSlice) -> str:
    with pytest.raises(EvaluationError) as failed:
        ask(expression, offered)
    return str(failed.value)


@pytest.mark.parametrize(
    "expression",
    [
        f'{A}.driverVersion == "1.5.0"',
        f"{A}.driverVersion == {A}.model",
        'dyn(quantity("1")) == 1',
        'quantity("2") == quantity("1").add(quantity("1"))',
        'quantity("2") == quantity("3").sub(1)',
        'quantity("3").sub(1) == quantity("3").sub(1)',
        'dyn(ip("1.2.3.4")) == 1',
        'dyn(cidr("1.2.3.0/24")) == 1',
        'dyn(url("http://a/b")) == 1',
        f'optional.of({A}.driverVersion) == optional.of("1.5.0")',
    ],
)
def test_on_the_left_a_type_of_kubernetes_is_compared_with_its_like_only(
    expression: str, offered: ResourceSlice
) -> None:
    assert complaint(expression, offered) == NO_OVERLOAD


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f'{A}.driverVersion != "1.5.0"', True),
        (f'"1.5.0" == {A}.driverVersion', False),
        ('quantity("3").sub(1) == quantity("2")', True),
        ('quantity("2") != quantity("3").sub(1)', True),
        ('quantity("2") in [quantity("3").sub(1)]', False),
        ('sets.contains([quantity("2")], [quantity("3").sub(1)])', True),
        ('[quantity("2")].indexOf(quantity("3").sub(1)) == -1', True),
        (f"{A}.driverVersion == null", False),
        (f"null == {A}.driverVersion", False),
        (f'{A}.driverVersion == semver("1.5.0")', True),
        ('[quantity("1")] == [dyn("1")]', True),
        (f'[{A}.driverVersion] != [dyn("a")]', False),
        (f'{{"a": {A}.driverVersion}} == {{"a": {A}.model}}', True),
        (f"{A}.driverVersion in [{A}.model]", False),
        (f"{A}.driverVersion in {A}", False),
        (f"{A}.driverVersion in {{}}", False),
        (f'[{A}.driverVersion].indexOf(dyn("a")) == -1', True),
        (f"sets.contains([{A}.model], [{A}.driverVersion])", False),
        ("optional.of(dyn(1)) == optional.of(dyn(true))", False),
    ],
)
def test_inside_lists_and_in_searches_what_cannot_be_compared_is_passed_over(
    expression: str, answer: bool, offered: ResourceSlice
) -> None:
    assert ask(expression, offered) is answer


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        (f'{A}.driverVersion in ["1.5.0"]', "cel.Semver"),
        (f'{A}.driverVersion in ["1.5.0"] || true', "cel.Semver"),
        (f'{A}.driverVersion in [int("1")]', "cel.Semver"),
        (f'{A}.driverVersion in {{"a": 1}}', "cel.Semver"),
        ('dyn(b"a") in ["a"]', "types.Bytes"),
    ],
)
def test_what_has_no_hash_ends_the_evaluation(
    expression: str, kind: str, offered: ResourceSlice
) -> None:
    assert complaint(expression, offered) == f"{UNHASHABLE} {kind}"


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (f"{A}.numa", "int", "unsupported type conversion from 'int' to bool"),
        ("1u", "uint", "unsupported type conversion from 'uint' to bool"),
        (f"{A}.model", "string", "unsupported native conversion from string to 'bool'"),
        ("1.5", "double", "type conversion error from Double to 'bool'"),
        ('b"a"', "bytes", "type conversion error from Bytes to 'bool'"),
        ("[1]", "list", "type conversion error from list to 'bool'"),
        ('{"a": 1}', "map", "type conversion error from map to 'bool'"),
        ("device.attributes", "map", "type conversion error from map to 'bool'"),
        ("null", "null_type", "type conversion error from 'null_type' to 'bool'"),
        (
            f"{A}.driverVersion",
            "kubernetes.Semver",
            "type conversion error from 'Semver' to 'bool'",
        ),
        (
            f"{C}.memory",
            "kubernetes.Quantity",
            "type conversion error from 'Quantity' to 'bool'",
        ),
        (
            'duration("1s")',
            "google.protobuf.Duration",
            "type conversion error from 'Duration' to 'bool'",
        ),
        (
            "timestamp(0)",
            "google.protobuf.Timestamp",
            "type conversion error from 'Timestamp' to 'bool'",
        ),
        (
            "format.dns1123Label()",
            "kubernetes.NamedFormat",
            "type conversion error from 'Format' to 'bool'",
        ),
        ("int", "type", "type conversion not supported for 'type'"),
        ("optional.none()", "optional_type", "optional.none() dereference"),
        (
            "optional.of(1)",
            "optional_type",
            "unsupported type conversion from 'int' to bool",
        ),
    ],
)
def test_a_result_that_is_no_boolean_is_refused_in_the_words_of_its_type(
    value: str, kind: str, reason: str, offered: ResourceSlice
) -> None:
    found = complaint(f"true ? dyn({value}) : {A}.nosuch", offered)
    assert found == f"CEL result of type {kind} could not be converted to bool: {reason}"


def test_a_boolean_in_an_optional_is_one(offered: ResourceSlice) -> None:
    assert ask(f"true ? optional.of(true) : {A}.nosuch", offered)


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f"has({A}.model.x)", False),
        (f"has({A}.driverVersion.x)", False),
        (f"{A}.?model.?x.hasValue()", False),
        (f"{A}.model[?0].hasValue()", False),
        ("has(dyn(null).x)", False),
    ],
)
def test_what_is_no_container_has_no_fields(
    expression: str, answer: bool, offered: ResourceSlice
) -> None:
    assert ask(expression, offered) is answer


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (f"{A}.model.x == 1", "no such key: x"),
        (f"has({A}.numa.x.y)", "no such key: x"),
        (f"{A}.model[0] == 1", "no such key: 0"),
        ('dyn({"a": 1})[true] == 1', "no such key: true"),
        ('dyn({"a": 1})[1.0] == 1', "no such key: 1"),
        ("has(dyn([1]).x)", "unsupported index type 'string' in list"),
        (f"{A}[{A}.driverVersion] == 1", "invalid qualifier type: cel.Semver"),
        ("dyn(1).all(x, true)", "got 'types.Int', expected iterable type"),
        ("dyn(1).all(i, x, true)", "unsupported comprehension range type: types.Int"),
        (
            '"%s".format([[?dyn(1)]]) == ""',
            "cannot initialize optional list element from non-optional value 1",
        ),
        (
            '"%s".format([{?"a": dyn(1)}]) == ""',
            "cannot initialize optional entry 'a' from non-optional value 1",
        ),
    ],
)
def test_what_cannot_be_looked_up_is_said_in_the_same_words(
    expression: str, reason: str, offered: ResourceSlice
) -> None:
    assert complaint(expression, offered) == reason


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f"cel.bind(v, {A}.nosuch, true)", True),
        (f"cel.bind(v, {A}.nosuch, {A}.healthy || v)", True),
        (f"cel.bind(v, {A}.nosuch, v || {A}.healthy)", True),
        ("cel.bind(v, cel.bind(w, 1/0, true), v)", True),
        (f"cel.bind(x, {A}.numa, [1, 2].exists(y, cel.bind(z, x + y, z == 3)))", True),
        ("[1, 2].map(i, cel.bind(x, i * 2, x)) == [2, 4]", True),
        ("optional.of(true).orValue(1/0 == 1)", True),
        ("optional.of(1).or(optional.of(1/0)).hasValue()", True),
        ('{"a-b": 1}.`a-b` == 1 && has({"a.b/c": 1}.`a.b/c`)', True),
        (f"{A}.`driverVersion`.major() == 1", True),
        (r"b'\xff\377'.size() == 2 && b'\xff' == b'\377'", True),
        ("1/0 in []", False),
        (f"{C}.nosuch.asInteger() in []", False),
        ('{"a": 1, "a": 2} == {"a": 2}', True),
    ],
)
def test_what_nobody_asks_for_is_not_evaluated(
    expression: str, answer: bool, offered: ResourceSlice
) -> None:
    assert ask(expression, offered) is answer


def test_a_bound_value_that_fails_fails_at_every_use(offered: ResourceSlice) -> None:
    assert complaint(f"cel.bind(v, {A}.nosuch, v || v)", offered) == "no such key: nosuch"


def test_work_beyond_the_limit_is_not_absorbed(offered: ResourceSlice) -> None:
    inner = "true"
    for _ in range(6):
        inner = f"[1,2,3,4,5,6,7,8,9,0].all(a, {inner})"
    found = complaint(f"{inner} || true", offered)
    assert found == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize(
    "expression",
    [
        '"abc".indexOf("a", 4) == -1 && "abc".indexOf("", 4) == 3',
        '"abc".lastIndexOf("a", 4) == -1 && "abc".lastIndexOf("a", 3) == -1',
        '"abc".lastIndexOf("a", 2) == 0 && "abcbc".lastIndexOf("bc", 4) == 3',
        '[dyn(1), dyn("a")].isSorted() && [dyn("a"), dyn(1)].isSorted()',
        '[dyn(1), dyn("a")].min() == 1 && [dyn(1), dyn("a")].max() == 1',
        '[dyn(2), dyn("a"), dyn(1)].min() == 1',
        'dyn([1.5]).sum() == 1.5 && dyn([duration("1s")]).sum() == duration("1s")',
        'bytes(b"abc") == b"abc"',
    ],
)
def test_functions_on_odd_arguments(expression: str, offered: ResourceSlice) -> None:
    assert ask(expression, offered) is True


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('"abc".substring(9, 1) == ""', "invalid substring range. start: 9, end: 1"),
        ('"abc".indexOf("a", -1) == 0', "index out of range: -1"),
        ("isURL(dyn(1))", f"{NO_OVERLOAD}: isURL(int)"),
        ("quantity(dyn(1)).isInteger()", f"{NO_OVERLOAD}: quantity(int)"),
        ('dyn("a").major() == 1', f"{NO_OVERLOAD}: major(string)"),
        ("sets.contains(dyn(1), [1])", f"{NO_OVERLOAD}: sets.contains(int, list)"),
        (f"{A}.numa.optMap(x, x).hasValue()", f"{NO_OVERLOAD}: hasValue(int)"),
        ('dyn(1).startsWith("a")', NO_OVERLOAD),
        (f"{A}.model.contains({A}.numa)", NO_OVERLOAD),
        ('dyn(1).matches("a")', NO_OVERLOAD),
        (f"dyn(1).matches({A}.model)", f"{NO_OVERLOAD}: matches"),
        (f'"a".matches({A}.numa)', NO_OVERLOAD),
        ("size(dyn(1)) == 1", f"{NO_OVERLOAD}: size"),
        ("dyn(1).sort() == []", f"{NO_OVERLOAD}: sort"),
        ("dyn(1).flatten() == []", f"{NO_OVERLOAD}: int.flatten()"),
        (
            "dyn([1]).flatten(dyn(true)) == []",
            "internal error: interface conversion: ref.Val is types.Bool, not types.Int",
        ),
        (
            "dyn(1).distinct() == []",
            "internal error: interface conversion: types.Int is not traits.Lister: "
            "missing method Contains",
        ),
        ('cidr("10.0.0.0/8").containsIP("x")', NO_OVERLOAD),
        (f"{A}.model / {A}.model == 1", NO_OVERLOAD),
        (f"{A}.driverVersion + {A}.numa == 1", f"{NO_OVERLOAD}: _+_"),
        ("dyn(1.5) % dyn(1.5) == 1", f"{NO_OVERLOAD}: _%_"),
        ("-dyn(1u) == 1", f"{NO_OVERLOAD}: -_"),
        ('dyn(["a"]).sum() == 1', f"{NO_OVERLOAD}: sum(list)"),
        ("dyn([1]).join() == ''", f"{NO_OVERLOAD}: join(list)"),
        ('[dyn("a"), dyn(1)].join() == ""', "join: invalid input: 1"),
        ("dyn([[1]]).min() == 1", f"{NO_OVERLOAD}: min(list)"),
        ('[dyn(1), dyn("a"), dyn(null)].isSorted()', NO_OVERLOAD),
        (
            'semver("", true).major() == 1',
            'strconv.ParseUint: parsing "": invalid syntax',
        ),
    ],
)
def test_functions_refuse_in_the_same_words(
    expression: str, reason: str, offered: ResourceSlice
) -> None:
    assert complaint(expression, offered) == reason


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        ('timestamp("2020-01-01T00:00:00Z") == null', False),
        ('duration("1s") != null', True),
        ('semver("1.0.0") == null', False),
        ('quantity("1") == null', False),
        ("device == null", False),
        (f"optional.none().orValue({A}.healthy)", True),
        ('([1, 2] + [dyn(1)]).exists(x, x == "1")', False),
        (f'([1, 2] + [{A}.numa]).exists(x, x == "1")', False),
        (f"true ? {A}.healthy : {A}.nosuch", True),
        (f"true || ({A}.healthy ? 1 : {A}.numa)", True),
        ("([] + [1])[0] == 1 && [][?0].orValue(true)", True),
        ("[?optional.none(), 1] == [1]", True),
        ('{}.?a.orValue("x") == "x"', True),
    ],
)
def test_what_the_checker_lets_pass(expression: str, answer: bool, offered: ResourceSlice) -> None:
    assert ask(expression, offered) is answer


def test_null_has_no_order_but_compiles(offered: ResourceSlice) -> None:
    assert complaint("dyn(1) < null", offered) == NO_OVERLOAD


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 == null", "found no matching overload for '_==_' applied to '(int, null)'"),
        ("[1] == null", "applied to '(list(int), null)'"),
        ("[[1], [dyn(1)]] == []", "expected type 'list(int)' but found 'list(dyn)'"),
        ("int in [int, string]", "expected type 'type(int)' but found 'type(string)'"),
        ("1 && true", "<input>:1:1: expected type 'bool' but found 'int'"),
        ('[1] + ["a"] == []', "applied to '(list(int), list(string))'"),
        ("{'a': 1}[?1].hasValue()", "'_[?_]' applied to '(map(string, int), int)'"),
        ("1.optMap(x, x) == 1", "found no matching overload for 'hasValue' applied to 'int.()'"),
        ("dyn(1)[null] == 1", "program instantiation failed: invalid qualifier type: types.Null"),
        ("null", "must evaluate to bool or the unknown type, not null_type"),
        ('duration("1s")', "the unknown type, not google.protobuf.Duration"),
        (A, "the unknown type, not map(string, dyn)"),
        (
            "duration(5) == duration('5ns')",
            "no matching overload for 'duration' applied to '(int)'",
        ),
        (r"b'\u00e9' == b''", "<input>:1:1: unable to unescape string"),
        ("`model` == 1", "Syntax error: mismatched input '`model`' expecting"),
        ('"é" + 1 == ""', '\n | "é" + 1 == ""\n | .\uff0e..^'),
    ],
)
def test_what_the_checker_refuses(expression: str, reason: str) -> None:
    with pytest.raises(CompileError) as refused:
        SELECTORS.compile(expression)
    assert reason in str(refused.value)
