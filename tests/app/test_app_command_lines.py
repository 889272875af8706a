"""Command lines whose outcome was recorded from the real kube-scheduler v1.37.1.

`accepted` means that it went on to look for a cluster, `usage` that it printed the usage before
the sentence, `failed` that it logged the sentence, `err` that it printed it, `out` that it printed
something and was done.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recorded import recorded, recorded_text
from moorage.app.flag_table import MOORAGE, SECTIONS
from moorage.app.flag_values import read_record, write_record
from moorage.app.flags import parse
from moorage.app.merged_config import complete
from moorage.app.options import EarlyExit, parse_options
from moorage.errors import InputError

CASES = [
    pytest.param(case, id=" ".join(case["args"]) or "nothing")
    for case in recorded("command-lines.json")
]


def outcome(args: list[str]) -> dict[str, Any]:
    found = parse_options(args)
    if not isinstance(found, EarlyExit):
        try:
            complete(found)
        except InputError as error:
            return {"outcome": "failed", "code": 1, "text": str(error)}
        return {"outcome": "accepted"}
    if found.stdout:
        return {"outcome": "out", "code": found.code, "text": found.stdout}
    logged = re.fullmatch(r'E.*\] "command failed" err=(.*)\n', found.stderr)
    if logged:
        return {"outcome": "failed", "code": found.code, "text": json.loads(logged[1])}
    usage, mark, sentence = found.stderr.partition("\nError: ")
    if mark and usage.startswith("Usage:"):
        return {"outcome": "usage", "code": found.code, "text": sentence.rstrip("\n")}
    return {"outcome": "err", "code": found.code, "text": found.stderr}


@pytest.mark.parametrize("case", CASES)
def test_a_command_line_ends_as_upstreams_does(case: dict[str, Any]) -> None:
    expected = {key: value for key, value in case.items() if key != "args"}
    assert outcome(case["args"]) == expected


def test_flags_are_listed_as_upstream_lists_them() -> None:
    line = parse(SECTIONS, ["-v=1", "--config=/nonexist"])
    own = {flag.name for flag in MOORAGE.flags}
    listed = [
        f"--{name}={json.dumps(text)}" for name, text in line.shown.items() if name not in own
    ]
    assert listed == recorded_text("flag-lines.txt").splitlines()


def test_repeated_lists_add_up_after_the_default_is_gone() -> None:
    line = parse(
        SECTIONS,
        [
            "--authorization-always-allow-paths=/a,/b",
            "--authorization-always-allow-paths",
            "/c",
            "--feature-gates=A=true,x:B=true",
            "--feature-gates=C=false",
            "--allow-metric-labels=a,b=c",
            "--allow-metric-labels=d,e=f",
            "--tls-sni-cert-key=a,b",
            "--tls-sni-cert-key=c,d:e",
            "--vmodule=a=1",
            "--vmodule=b=2",
            "--master=a",
            "--master=b",
        ],
    )
    assert line.values["authorization-always-allow-paths"] == ("/a", "/b", "/c")
    assert line.values["feature-gates"] == {"": ("A=true", "C=false"), "x": ("B=true",)}
    assert line.values["allow-metric-labels"] == {"a,b": "c", "d,e": "f"}
    assert line.shown["tls-sni-cert-key"] == "[a,b;c,d:e]"
    assert line.shown["vmodule"] == "a=1,b=2"
    assert line.values["master"] == "b"


FIELDS = st.lists(st.text(alphabet=' ,"ab\t', max_size=6), min_size=1, max_size=4)


@given(FIELDS)
def test_a_list_that_is_printed_can_be_read_again(fields: list[str]) -> None:
    written = write_record(fields)
    if written:  # a single empty field is written as nothing at all
        assert read_record(written) == tuple(fields)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('a,"b', 'parse error on line 1, column 5: extraneous or missing " in quoted-field'),
        ('\n",', 'parse error on line 2, column 3: extraneous or missing " in quoted-field'),
        (
            '\n" \\\n\n,',
            "record on line 2; parse error on line 4, column 2: "
            'extraneous or missing " in quoted-field',
        ),
        ("\n", "EOF"),
    ],
)
def test_a_list_with_a_wrong_quote_is_refused_where_it_is(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_record(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0.1", "0.1"),
        ("123456", "123456"),
        ("1234567", "1.234567e+06"),
        ("1e-5", "1e-05"),
        ("-2.50", "-2.5"),
        ("NaN", "NaN"),
        ("-inf", "-Inf"),
        ("16777217", "1.6777216e+07"),
    ],
)
def test_a_rate_is_shown_with_the_digits_that_matter(text: str, shown: str) -> None:
    assert parse(SECTIONS, [f"--kube-api-qps={text}"]).shown["kube-api-qps"] == shown
