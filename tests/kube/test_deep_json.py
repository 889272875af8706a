"""Documents that are nested deeper than the decoder can follow."""

import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube import deep_json

LEVELS = 10_000
"""The most that kube-apiserver takes."""


def nested(levels: int = LEVELS, begin: str = '{"f:a":', end: str = "}") -> str:
    return begin * levels + "1" + end * levels


def raw(value: object) -> bytes:
    assert isinstance(value, msgspec.Raw)
    return bytes(value)


def test_what_is_nested_too_deeply_stays_bytes_and_the_rest_is_decoded() -> None:
    data = f'{{"a": [1, {{"b": {nested()}}}], "c": "x"}}'.encode()
    found = deep_json.decode(data)
    assert found["c"] == "x"
    value = found["a"][1]["b"]
    levels = 3
    while isinstance(value, dict):
        value = value["f:a"]
        levels += 1
    assert levels - 1 <= deep_json.MOST_LEVELS
    assert raw(value).count(b"{") == raw(value).count(b"}") > LEVELS - deep_json.MOST_LEVELS


def test_encoding_what_was_decoded_gives_the_same_document() -> None:
    data = ('{"a":[' + nested() + ',"deep",' + nested(5000, "[", "]") + "]}").encode()
    assert msgspec.json.encode(deep_json.decode(data)) == data


def test_brackets_and_quotes_inside_of_strings_do_not_count() -> None:
    text = json.dumps({"\\": '"}]\\"{[', '"': "\\\\", "deep": nested(3)})
    data = f'[{text},{nested()},{{"é\\"[": "\\u005b"}}]'.encode()
    assert msgspec.json.encode(deep_json.decode(data)[0]) == msgspec.json.encode(json.loads(text))


@pytest.mark.parametrize("end", [b"", b"}", b'"', b"]]"])
def test_a_document_that_is_not_closed_is_no_json(end: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        deep_json.decode(b'{"a":' + b"[" * LEVELS + end)


@given(
    st.recursive(
        st.none() | st.integers(-9, 9) | st.text('"\\{}[]a'),
        lambda inner: st.lists(inner) | st.dictionaries(st.text('"\\{}[]a'), inner),
    )
)
def test_members_are_found_whatever_they_hold(value: object) -> None:
    text = json.dumps({"items": [[value], {"x": value}], "n": 1}).encode()
    outline, found = deep_json.members(text, 2)
    assert json.loads(outline) == {"items": [0, 1], "n": 1}
    assert [json.loads(bytes(item)) for item in found] == [[value], {"x": value}]


def test_the_recursion_limit_is_left_alone() -> None:
    before = sys.getrecursionlimit()
    deep_json.decode(nested().encode())
    assert sys.getrecursionlimit() == before
