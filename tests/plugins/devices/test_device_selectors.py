"""CEL selectors: what they say of a device, and what is wrong with those that say nothing."""

import pytest

from moorage.cel import CompileError, EvaluationError
from moorage.model.devices import ResourceSlice
from plugins.devices.device_objects import DRIVER, device, slice_of
from plugins.devices.device_selector_asking import SELECTORS, ask, offering

A = f'device.attributes["{DRIVER}"]'
C = f'device.capacity["{DRIVER}"]'


@pytest.fixture(scope="module")
def offered() -> ResourceSlice:
    rank = {"other.example.com/rank": 7}
    return offering(driverVersion={"version": "1.6.0-rc.1"}, **rank)


@pytest.mark.parametrize(
    "expression",
    [
        "true",
        f'device.driver == "{DRIVER}"',
        f'{A}.model == "a100"',
        f'{A}["model"] != "h100"',
        f'{A}.model in ["a100", "h100"]',
        f'{A}.model.startsWith("a") && {A}.model.endsWith("00")',
        f'{A}.model.matches("^a[0-9]+$")',
        f"{A}.healthy",
        f"{A}.numa <= 1 && {A}.numa > 0.5",
        f"{A}.numa * 2 - 1 == 1 && -{A}.numa < 0 && 7 / 2 == 3 && -7 % 4 == -3",
        'device.attributes["other.example.com"].rank == 7',
        f'"model" in {A}',
        f'!("nvlink" in {A})',
        f'"{DRIVER}" in device.attributes',
        '!("no-such-domain" in device.attributes)',
        'device.attributes["no-such-domain"].size() == 0',
        "has(device.attributes.anything)",
        f"has({A}.model) && !has({A}.nosuch)",
        f'{A}.?nosuch.orValue("x") == "x"',
        f'{A}[?"model"].hasValue()',
        f'cel.bind(a, {A}, a.model == "a100" && a.numa == 1)',
        f'{C}.memory.compareTo(quantity("40Gi")) == 0',
        f'{C}.memory.isGreaterThan(quantity("39Gi")) && !{C}.memory.isLessThan(quantity("1G"))',
        f'{C}.memory.add(quantity("1Gi")).sub(quantity("41Gi")).asInteger() == 0',
        'isQuantity("1.5Gi") && !isQuantity("many") && quantity("500m").isInteger() == false',
        f'{A}.driverVersion.isLessThan(semver("1.6.0"))',
        f'{A}.driverVersion.compareTo(semver("v1.5", true)) > 0',
        f"{A}.driverVersion.minor() == 6",
        'isSemver("1.2.3") && !isSemver("1.2") && isSemver("v1.2", true)',
        "device.allowMultipleAllocations == false",
        f'device.attributes.exists_one(d, d == "{DRIVER}")',
        f"{A}.exists(k, k == 'numa') && {A}.all(k, k.size() > 3)",
        "[1, 2, 3].map(x, x * 2).filter(x, x > 2) == [4, 6]",
        "[3, 1, 2].sort()[0] == 1 && [1, 2].sum() == 3 && [1, 2].max() == 2",
        '"a,b,c".split(",").size() == 3 && ["a", "b"].join("-") == "a-b"',
        '"Gpu".lowerAscii() == "gpu" && "abc".substring(1) == "bc" && " x ".trim() == "x"',
        'sets.contains([1, 2], [2]) && "k" in {"k": 1}',
        "1 / 0 == 1 || true",
        f"{A}.nosuch == 1 || {A}.numa == 1",
        f"true ? {A}.healthy : {A}.nosuch",
        'int("7") == 7 && string(7) == "7" && double(1) == 1.0 && type(1) == int',
        "'\\u0041' == \"A\" && r'\\n'.size() == 2 && 0x10 == 16",
        "-9223372036854775808 < 9223372036854775807  // a comment",
    ],
)
def test_what_selects_the_device(expression: str, offered: ResourceSlice) -> None:
    assert ask(expression, offered) is True


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        (f"{A}.nosuch == 1", "no such key: nosuch"),
        (f'{A}["nosuch"] == 1', "no such key: nosuch"),
        ('device.attributes["no-such-domain"].x == 1', "no such key: x"),
        (f"{A}.model > 1", "no such overload"),
        (
            f'{A}.model.isGreaterThan(semver("1.0.0"))',
            "no such overload: isGreaterThan(string, kubernetes.Semver)",
        ),
        (f"{A}.numa / 0 == 1", "division by zero"),
        (f"[1][{A}.numa] == 1", "index out of bounds: 1"),
        (f"{A}.nosuch == 1 && true", "no such key: nosuch"),
        (f"{A}.numa", "CEL result of type int could not be converted to bool"),
        (f"{A}.numa + 9223372036854775807 > 0", "integer overflow"),
        ('quantity("x") == quantity("y")', "quantities must match"),
        (
            "[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, "
            "[1,2,3,4,5,6,7,8,9,0].all(c, [1,2,3,4,5,6,7,8,9,0].all(d, "
            "[1,2,3,4,5,6,7,8,9,0].all(e, [1,2,3,4,5,6,7,8,9,0].all(f, a < 10))))))",
            "cost limit exceeded",
        ),
    ],
)
def test_what_fails_on_the_device(expression: str, complaint: str, offered: ResourceSlice) -> None:
    with pytest.raises(EvaluationError) as raised:
        ask(expression, offered)
    assert complaint in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("?!", "compilation failed: ERROR: <input>:1:1: Syntax error: "),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        (
            "device.foo == 1",
            "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n"
            " | device.foo == 1\n | ......^",
        ),
        (
            "gadget == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'gadget' "
            "(in container '')\n | gadget == 1\n | ^",
        ),
        (
            'device.driver + 1 == "x"',
            "found no matching overload for '_+_' applied to '(string, int)'",
        ),
        ('device.driver.frobnicate() == "x"', "undeclared reference to 'frobnicate'"),
        ('["a", 1] == []', "expected type 'string' but found 'int'"),
        ("device.driver.exists(x, x > 0)", "cannot be range of a comprehension"),
        ('device.driver == "unclosed', "token recognition error"),
        ("true &&", "Syntax error"),
        ("(" * 200 + "true" + ")" * 200, "recursion limit"),
    ],
)
def test_what_does_not_compile(expression: str, complaint: str) -> None:
    with pytest.raises(CompileError) as raised:
        SELECTORS.compile(expression)
    assert complaint in str(raised.value)


def test_attributes_may_be_lists() -> None:
    names = device("d", attributes={"names": {"strings": ["cod", "eel"]}})
    fish = slice_of("s", [names])
    assert ask(f'{A}.names.includes("eel")', fish)
    assert ask(f'"cod" in {A}.names && {A}.names.exists(n, n == "eel")', fish)
    assert not ask(f'{A}.names.includes("roe")', fish)


def test_a_single_value_includes_itself(offered: ResourceSlice) -> None:
    assert ask('"a".includes("a") && !"a".includes("b") && dyn(1).includes(1)', offered)
    assert ask("lists.range(1000).includes(999)", offered)


@pytest.mark.parametrize("key", ["[1]", "{1: 2}", "dyn([1])", "optional.of([1])", "device"])
def test_a_list_or_a_map_is_no_key_of_a_map(key: str, offered: ResourceSlice) -> None:
    with pytest.raises(EvaluationError, match="unsupported key type"):
        ask(f"{{{key}: 1}}.size() == 1", offered)
