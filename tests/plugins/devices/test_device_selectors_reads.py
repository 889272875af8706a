"""Which attributes an expression reads: the others may change without changing the answer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.cel import EvaluationError
from moorage.cel.values import DefaultMap, Quantity
from moorage.plugins.dynamic_resources.selectors import DeviceSelectors

SELECTORS = DeviceSelectors()
A = 'device.attributes["d"]'


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ('device.driver == "x"', set()),
        ("device.allowMultipleAllocations", set()),
        ('device.capacity["d"].memory.compareTo(quantity("1Gi")) >= 0', set()),
        (f'{A}.model == "x"', {("d", "model")}),
        (f'{A}["model"] == "x"', {("d", "model")}),
        (f"has({A}.model)", {("d", "model")}),
        (f'{A}.model in ["x"] && !(device.attributes["e"].n > 3)', {("d", "model"), ("e", "n")}),
        (f'["x", "y"].exists(one, one == {A}.model)', {("d", "model")}),
        (f'cel.bind(m, {A}.model, m == "x" || m == "y")', {("d", "model")}),
        (f'{A}.?model.orValue("x") == "x"', {("d", "model")}),
        ('device.attributes[?"d"].model.orValue("x") == "x"', {("d", "model")}),
    ],
)
def test_what_is_named_is_read(expression: str, reads: set[tuple[str, str]]) -> None:
    assert SELECTORS.reads(expression) == frozenset(reads)


@pytest.mark.parametrize(
    "expression",
    [
        '"d" in device.attributes',
        '"model" in device.attributes["d"]',
        f"{A}.exists(name, name.startsWith('m'))",
        "device.attributes[device.driver].model == 'x'",
        f'{A}[device.driver] == "x"',
        'cel.bind(d, device, d.attributes["d"].model == "x")',
        'cel.bind(a, device.attributes, a["d"].model == "x")',
        "size(device.attributes) == 1",
    ],
)
def test_where_it_is_not_plain_everything_may_be_read(expression: str) -> None:
    assert SELECTORS.reads(expression) is None


names = st.sampled_from(["p", "q", "r"])
accesses = st.builds('device.attributes["{}"].{}'.format, st.sampled_from(["d", "e"]), names)
optional = st.builds(
    "device.attributes{}.{}".format,
    st.sampled_from(['["d"].?p', '[?"d"].p', '["e"].?p', '[?"e"].?p']),
    names,
).map(lambda text: text.rpartition(".")[0]) | st.sampled_from(
    ['device.attributes["d"].?q', 'device.?attributes["d"].q', 'device.attributes[?"e"]["r"]']
)
simple = st.one_of(
    accesses.map("{} == 1".format),
    accesses.map("has({})".format),
    accesses.map("{} in [1, 2]".format),
    optional.map("{}.orValue(2) == 1".format),
    optional.map("{}.hasValue()".format),
    st.just('device.driver == "d"'),
    st.just('device.attributes.exists(d, d == "e")'),
    names.map('"{}" in device.attributes["d"]'.format),
)
expressions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds("({} && {})".format, inner, inner),
        st.builds("({} || {})".format, inner, inner),
        inner.map("!({})".format),
        inner.map("[1, 2].exists(i, i == 2 && {})".format),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        inner.map("cel.bind(b, {}, b)".format),
    ),
    max_leaves=5,
)
attributes = st.dictionaries(
    st.tuples(st.sampled_from(["d", "e"]), names), st.integers(1, 2), max_size=5
)


def _answer(expression: str, known: dict[tuple[str, str], int]) -> object:
    values = DefaultMap()
    for (domain, name), value in known.items():
        values.setdefault(domain, {})[name] = value
    capacity = DefaultMap()
    capacity["d"] = {"memory": Quantity(1)}
    device = {"driver": "d", "allowMultipleAllocations": False}
    try:
        return SELECTORS.compile(expression).evaluate_bool(
            {"device": {**device, "attributes": values, "capacity": capacity}}
        )
    except EvaluationError as error:
        return str(error)


@settings(max_examples=300, deadline=None)
@given(expressions, attributes, attributes)
def test_attributes_that_are_not_read_do_not_matter(
    expression: str, one: dict[tuple[str, str], int], other: dict[tuple[str, str], int]
) -> None:
    reads = SELECTORS.reads(expression)
    if reads is None:
        return
    mixed = {key: value for key, value in other.items() if key not in reads}
    mixed |= {key: value for key, value in one.items() if key in reads}
    assert _answer(expression, mixed) == _answer(expression, one)
