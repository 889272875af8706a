"""Nothing that an object, a server or a URL says can forge a log line, or be a secret in one."""

import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.app.logs import JsonFormatter, TextFormatter
from moorage.cli.startup import CommandFormatter
from moorage.log_fields import KObj, fields

FORGED = "E1118 00:00:00.000000       1 run.py:1] forged"
HOSTILE = f"a\n{FORGED}\r\x1b[2J\x00\x7f\x85\x9b\u2028{FORGED}\u2029\u202e\u2066\ud800z"
FORMATTERS = [TextFormatter(pid=1), CommandFormatter()]


def record(
    message: str, *args: object, error: BaseException | None = None, **values: Any
) -> logging.LogRecord:
    log = logging.getLogger("moorage.tested")
    raised = (type(error), error, error.__traceback__) if error is not None else None
    extra = fields(**values) if values else None
    return log.makeRecord(log.name, logging.ERROR, "a.py", 1, message, args, raised, extra=extra)


def raised(text: str) -> Exception:
    try:
        try:
            raise KeyError(text)
        except KeyError as cause:
            raise ValueError(text) from cause
    except ValueError as error:
        error.add_note(text)
        return error


def assert_safe(line: str) -> None:
    assert line.replace("\n", "").replace("\t", "").isprintable()
    assert all(other.startswith(("\t", " >")) for other in line.split("\n")[1:]), line


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_plain_message_stays_on_one_line(formatter: logging.Formatter) -> None:
    line = formatter.format(record("pod %s: %s", "default/a", HOSTILE))
    assert_safe(line)
    assert "\n" not in line
    assert r"\x1b[2J" in line


@pytest.mark.parametrize(
    "value",
    [
        HOSTILE,
        KObj("default", HOSTILE),
        ValueError(HOSTILE),
        {"a": HOSTILE, HOSTILE: 1},
        [HOSTILE],
        HOSTILE.encode("utf-8", "surrogatepass"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_cannot_begin_a_line(value: object) -> None:
    assert_safe(TextFormatter().format(record(HOSTILE, key=value)))


@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_traceback_is_indented_whatever_its_exceptions_say(formatter: logging.Formatter) -> None:
    line = formatter.format(record("it broke", error=raised(HOSTILE)))
    assert_safe(line)
    assert "\n\tTraceback (most recent call last):" in line
    assert "raise ValueError(text) from cause" in line


@given(st.text())
def test_no_text_leaves_its_line(text: str) -> None:
    assert_safe(TextFormatter().format(record("%s", text)))
    assert_safe(TextFormatter().format(record("m", key=text, err=ValueError(text))))


def test_json_is_one_line_that_reads_back() -> None:
    text = HOSTILE.replace("\ud800", "")
    line = JsonFormatter().format(record("m", key=text, error=raised(text)))
    assert "\n" not in line
    assert "\x1b" not in line
    assert json.loads(line)["key"] == text


SECRETS = [
    ("https://user:s3cret@host:6443/x", "https://user:xxxxx@host:6443/x"),
    ("https://user:s3c@ret@host", "https://user:xxxxx@host"),
    ("https://host/x?a=1&access_token=s3cret&b=2", "https://host/x?a=1&access_token=xxxxx&b=2"),
    ("Authorization: Bearer s3cret.s3cret.s3cret", "Authorization: Bearer xxxxx"),
    (
        "-----BEGIN EC PRIVATE KEY-----\ns3cret\n-----END EC PRIVATE KEY-----",
        "-----BEGIN EC PRIVATE KEY-----xxxxx-----END EC PRIVATE KEY-----",
    ),
]


@pytest.mark.parametrize(("text", "shown"), SECRETS)
@pytest.mark.parametrize("formatter", [*FORMATTERS, JsonFormatter()])
def test_a_secret_is_in_no_line(text: str, shown: str, formatter: logging.Formatter) -> None:
    for one in (record("%s", text), record("m", key=text), record("m", error=raised(text))):
        assert "s3c" not in formatter.format(one)
    if "\n" not in text:
        assert shown in formatter.format(record("%s", text))


def test_an_address_without_a_secret_is_left_alone() -> None:
    text = "https://host:6443/api/v1/pods?watch=true&continue=abc user@example.com a:b@c"
    assert TextFormatter().format(record("%s", text)).endswith(text)


def test_an_error_that_nobody_caught_is_safe_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    from moorage.cli.startup import print_safely

    before = sys.excepthook
    try:
        print_safely()
        error = raised(HOSTILE)
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.excepthook = before
    assert_safe(capsys.readouterr().err.removesuffix("\n"))
