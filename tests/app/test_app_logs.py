"""Logging: klog's text, component-base's JSON, verbosity, patterns of files, streams."""

import io
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.app.logs import (
    JsonFormatter,
    LoggingOptions,
    Logs,
    StreamOptions,
    TextFormatter,
    configure_logging,
    reset_logging,
    set_verbosity,
)
from moorage.app.options import Options, announce, parse_options
from moorage.log_fields import KObj, V, fields, verbosity_of
from moorage.model.duration import Duration

log = logging.getLogger("moorage.app.tested")


class Streams:
    """Where a process would write to."""

    def __init__(self) -> None:
        self.stdout = io.StringIO()
        self.stderr = io.StringIO()

    def configure(self, options: LoggingOptions | None = None) -> Logs:
        return configure_logging(options or LoggingOptions(), self.stdout, self.stderr)

    @property
    def lines(self) -> list[str]:
        return self.stderr.getvalue().splitlines()


@pytest.fixture
def streams() -> Iterator[Streams]:
    yield Streams()
    reset_logging()


def record(
    message: str, level: int = logging.INFO, created: float = 0.0, **values: Any
) -> logging.LogRecord:
    made = log.makeRecord(
        log.name,
        level,
        "/src/moorage/app/run.py",
        72,
        message,
        (),
        None,
        extra=fields(**values) if values else None,
    )
    made.created = created
    return made


def text(message: str, **values: Any) -> str:
    """What stands behind the head of a line."""
    return TextFormatter().format(record(message, **values)).partition("] ")[2]


@pytest.mark.parametrize(
    ("level", "sign"),
    [
        (logging.INFO, "I"),
        (V(4), "I"),
        (logging.DEBUG, "I"),
        (logging.WARNING, "W"),
        (logging.ERROR, "E"),
        (logging.CRITICAL, "F"),
    ],
)
def test_a_line_of_text_has_klogs_head(level: int, sign: str) -> None:
    line = TextFormatter(pid=18608).format(record("a", level, created=1794794657.479807))
    assert re.fullmatch(rf"{sign}111[567] \d\d:\d\d:17\.479807   18608 run\.py:72\] a", line)


def test_a_message_with_fields_is_quoted_and_one_without_is_not() -> None:
    assert text('say "a"') == 'say "a"'
    assert text('say "a"', n=1) == '"say \\"a\\"" n=1'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("v1.37.1", '"v1.37.1"'),
        ("", '""'),
        ('a"b', '"a\\"b"'),
        (5, "5"),
        (True, "true"),
        (None, "null"),
        (1.5, "1.5"),
        (ValueError("no"), '"no"'),
        (KObj("kube-system", "a"), '"kube-system/a"'),
        (KObj("", "node-1"), '"node-1"'),
        (Duration.of_seconds(90), '"1m30s"'),
        (
            {"Name": "a", "n": [1, KObj("x", "y")]},
            '{"Name":"a","n":[1,{"name":"y","namespace":"x"}]}',
        ),
        ("line 1\nline 2", "<\n\tline 1\n\tline 2\n >"),
        ("line 1\n", "<\n\tline 1\n >"),
        (b"ab", '"ab"'),
        ("<b>", '"<b>"'),
        (["<b>"], '["\\u003cb\\u003e"]'),
    ],
)
def test_values_look_in_text_as_klog_prints_them(value: object, shown: str) -> None:
    assert text("m", key=value) == f'"m" key={shown}'


def test_an_error_stands_before_the_other_fields() -> None:
    assert text("Failed to watch", type="Pod", err=ValueError("gone")) == (
        '"Failed to watch" err="gone" type="Pod"'
    )


class Plugin(msgspec.Struct):
    Name: str
    Weight: int


def test_a_line_of_json_is_component_bases() -> None:
    line = JsonFormatter().format(
        record(
            "Starting Kubernetes Scheduler",
            V(2),
            created=1794794810.2171802,
            version="v1.37.1",
            pod=KObj("a", "b"),
            node=KObj("", "c"),
            plugins=[Plugin("x", 0)],
            after=Duration.of_seconds(0),
            mark="<b>",
        )
    )
    stamp, rest = line[:24], line[24:]
    assert re.fullmatch(r'\{"ts":1794794810217\.\d+', stamp)
    assert rest.partition(",")[2] == (
        '"caller":"app/run.py:72","msg":"Starting Kubernetes Scheduler","v":2,"version":"v1.37.1",'
        '"pod":{"name":"b","namespace":"a"},"node":{"name":"c"},'
        '"plugins":[{"Name":"x","Weight":0}],"after":"0s","mark":"<b>"}'
    )


def test_an_error_in_json_has_no_verbosity_and_its_cause_comes_last() -> None:
    line = JsonFormatter().format(
        record("command failed", logging.ERROR, err=ValueError("open /a"), x=1)
    )
    assert line == '{"ts":0,"caller":"app/run.py:72","msg":"command failed","x":1,"err":"open /a"}'


def test_a_message_without_fields_is_fine_in_json(streams: Streams) -> None:
    streams.configure(LoggingOptions(format="json"))
    log.warning("%d nodes of %s", 3, "a")
    (line,) = streams.lines
    found = json.loads(line)
    assert (found["msg"], found["v"]) == ("3 nodes of a", 0)
    assert found["caller"].startswith("app/test_app_logs.py:")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_is_kept(form: str, streams: Streams) -> None:
    streams.configure(LoggingOptions(format=form))
    try:
        raise RuntimeError("boom")
    except RuntimeError:
        log.exception("it broke")
    assert "RuntimeError: boom" in streams.stderr.getvalue()


@given(st.integers(min_value=0, max_value=17))
def test_a_verbosity_has_a_level_of_its_own(verbosity: int) -> None:
    assert verbosity_of(V(verbosity)) == verbosity
    assert V(verbosity + 1) < V(verbosity)
    assert V(verbosity) != logging.DEBUG


@pytest.mark.parametrize("verbosity", range(12))
def test_messages_appear_from_their_verbosity_on(verbosity: int, streams: Streams) -> None:
    streams.configure(LoggingOptions(verbosity=verbosity))
    for level in range(12):
        log.log(V(level), "%s", f"V({level})")
    log.debug("debug")
    shown = [line.partition("] ")[2] for line in streams.lines]
    expected = [f"V({level})" for level in range(verbosity + 1)]
    assert shown == expected + (["debug"] if verbosity >= 4 else [])
    assert log.isEnabledFor(V(verbosity))
    if verbosity < 4:
        assert not log.isEnabledFor(V(verbosity + 1))


def test_verbosity_can_change_while_the_process_runs(streams: Streams) -> None:
    logs = streams.configure()
    log.log(V(2), "before")
    set_verbosity(2)
    log.log(V(2), "after")
    assert logs.verbosity == 2
    set_verbosity(0)
    log.log(V(2), "again")
    assert [line.partition("] ")[2] for line in streams.lines] == ["after"]


@pytest.mark.parametrize(
    ("pattern", "is_shown"),
    [("test_app_logs", True), ("test_*", True), ("logs", False), ("tests/*", False)],
)
def test_cli_075_a_pattern_raises_the_verbosity_of_files(
    pattern: str, is_shown: bool, streams: Streams
) -> None:
    streams.configure(LoggingOptions(verbosity=1, vmodule=((pattern, 5),)))
    log.log(V(5), "five")
    log.log(V(6), "six")
    log.log(V(1), "one")
    shown = [line.partition("] ")[2] for line in streams.lines]
    assert shown == (["five", "one"] if is_shown else ["one"])


def test_other_libraries_are_heard_from_warnings_on(streams: Streams) -> None:
    streams.configure(LoggingOptions(verbosity=10))
    logging.getLogger("asyncio").debug("Using selector")
    logging.getLogger("asyncio").info("info")
    logging.getLogger("asyncio").warning("slow")
    assert [line.partition("] ")[2] for line in streams.lines] == ["slow"]


def test_everything_goes_to_standard_error_unless_streams_are_split(streams: Streams) -> None:
    streams.configure()
    log.info("info")
    log.error("error")
    assert len(streams.lines) == 2
    assert streams.stdout.getvalue() == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_cli_076_split_streams_part_errors_from_the_rest(form: str, streams: Streams) -> None:
    split = StreamOptions(split=True)
    streams.configure(LoggingOptions(format=form, text=split, json=split))
    log.info("info")
    log.warning("warning")
    log.error("error")
    assert len(streams.stdout.getvalue().splitlines()) == 2
    assert len(streams.lines) == 1
    assert "error" in streams.lines[0]


def test_cli_076_what_fits_into_the_buffer_is_kept_back(streams: Streams) -> None:
    logs = streams.configure(LoggingOptions(text=StreamOptions(split=True, info_buffer_size=200)))
    log.info("one")
    assert streams.stdout.getvalue() == ""
    log.error("error")
    assert len(streams.lines) == 1
    log.info("two %s", "x" * 150)
    assert streams.stdout.getvalue().endswith("] one\n")
    logs.flush()
    assert streams.stdout.getvalue().count("\n") == 2
    log.info("three")
    reset_logging()
    assert streams.stdout.getvalue().endswith("] three\n")


def test_cli_073_what_is_kept_back_is_written_in_time(streams: Streams) -> None:
    read, write = os.pipe()
    with os.fdopen(read) as reader, os.fdopen(write, "w") as writer:
        configure_logging(
            LoggingOptions(
                flush_frequency=Duration(1_000_000),
                text=StreamOptions(split=True, info_buffer_size=4096),
            ),
            writer,
            streams.stderr,
        )
        log.info("soon")
        assert reader.readline().endswith("] soon\n")  # nobody but the clock flushes
        reset_logging()


def test_configuring_again_replaces_what_was_there(streams: Streams) -> None:
    other = Streams()
    other.configure()
    streams.configure()
    log.info("once")
    assert other.lines == []
    assert len(streams.lines) == 1


def test_cli_005_flags_are_listed_at_verbosity_1_after_warnings_about_gates(
    streams: Streams,
) -> None:
    options = parse_options(["-v=1", "--feature-gates=InformerResourceVersion=true"])
    assert isinstance(options, Options)
    streams.configure(options.logging)
    announce(options)
    shown = [line.partition("] ")[2] for line in streams.lines]
    assert shown[0] == (
        '"Warning: setting GA feature gate. It will be removed in a future release." '
        'featureGate="InformerResourceVersion" value=true'
    )
    assert 'FLAG: --authorization-always-allow-paths="[/healthz,/readyz,/livez]"' in shown
    assert len(shown) == 1 + len(options.flag_values)
    quiet = parse_options([])
    assert isinstance(quiet, Options)
    streams.configure(quiet.logging)
    announce(quiet)
    assert len(streams.lines) == len(shown)
