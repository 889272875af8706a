"""Log records as lines: klog's text and component-base's JSON.

Owns the two formats, and that nothing in a record can forge a line, control a terminal or reveal a
secret. Must not decide what is logged or where it goes (`logs`).
"""

import logging
import os
import time
from pathlib import PurePath
from typing import Any

import msgspec

from moorage.config.duration import Duration
from moorage.config.field_errors import go_json, quoted
from moorage.log_fields import KObj, fields_of, verbosity_of
from moorage.printable import continued, printable
from moorage.redaction import redacted

_SEVERITIES = (
    (logging.CRITICAL, "F"),
    (logging.ERROR, "E"),
    (logging.WARNING, "W"),
)
_ERROR = "err"


class TextFormatter(logging.Formatter):
    """klog: `I1116 02:00:00.000000   12345 file.py:12] "message" key="value"`."""

    def __init__(self, pid: int | None = None) -> None:
        super().__init__()
        self._pid = os.getpid() if pid is None else pid

    def format(self, record: logging.LogRecord) -> str:
        """The line, without the break at its end.

        Values of several lines and tracebacks follow on indented lines.
        """
        fields = fields_of(record)
        text = record.getMessage()
        if fields is None:
            text = printable(text.removesuffix("\n"), keep="\t")
        else:
            text = quoted(text) + "".join(
                f" {key}{_text_value(value)}" for key, value in _error_first(fields).items()
            )
        line = f"{self._head(record)}] {text}"
        if record.exc_info:
            line += continued(self.formatException(record.exc_info))
        return redacted(printable(line, keep="\n\t"))

    def _head(self, record: logging.LogRecord) -> str:
        severity = next((sign for level, sign in _SEVERITIES if record.levelno >= level), "I")
        moment = time.localtime(record.created)
        micros = int(record.created * 1_000_000) % 1_000_000
        stamp = time.strftime("%m%d %H:%M:%S", moment)
        return f"{severity}{stamp}.{micros:06d} {self._pid:7d} {record.filename}:{record.lineno}"


class JsonFormatter(logging.Formatter):
    """component-base: `{"ts":…,"caller":"app/run.py:12","msg":"…","v":0,…}`."""

    def format(self, record: logging.LogRecord) -> str:
        """One object on one line; a traceback is its last field."""
        path = PurePath(record.pathname)
        line: dict[str, Any] = {
            "ts": _Raw(_milliseconds(record.created)),
            "caller": f"{path.parent.name}/{path.name}:{record.lineno}".lstrip("/"),
            "msg": record.getMessage(),
        }
        is_error = record.levelno >= logging.ERROR
        if not is_error:
            line["v"] = verbosity_of(record.levelno)
        given = dict(fields_of(record) or {})
        error = given.pop(_ERROR, None)
        line.update({key: _json_value(value) for key, value in given.items()})
        if error is not None:
            line[_ERROR] = str(error)
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
        return redacted(_plain_json(line))


class _Raw(str):
    """A number that is already in its final form."""

    __slots__ = ()


def _error_first(fields: dict[str, Any]) -> dict[str, Any]:
    return {_ERROR: fields[_ERROR], **fields} if _ERROR in fields else fields


def _text_value(value: Any) -> str:
    if isinstance(value, str | BaseException | KObj | Duration):
        return _text_string(str(value))
    if isinstance(value, bytes):
        return f"={quoted(value.decode('utf-8', 'backslashreplace'))}"
    return f"={go_json(_json_value(value))}"


def _text_string(text: str) -> str:
    if "\n" not in text:
        return f"={quoted(text)}"
    return f"=<{continued(text.removesuffix(chr(10)))}\n >"


def _json_value(value: Any) -> Any:
    """A value in the types that JSON has; what has none is told in its own words."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, KObj):
        shown = {"name": value.name, "namespace": value.namespace}
        return {key: item for key, item in shown.items() if item or key == "name"}
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, msgspec.Struct) and not isinstance(value, Duration):
        return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    return str(value)


def _milliseconds(seconds: float) -> str:
    text = repr(int(seconds * 1_000_000_000) / 1_000_000)
    return text.removesuffix(".0")


def _plain_json(value: dict[str, Any]) -> str:
    """JSON without the escapes for HTML, which the text format has and this one has not."""
    return (
        "{"
        + ",".join(
            f"{_encode(key)}:{item if isinstance(item, _Raw) else _encode(item)}"
            for key, item in value.items()
        )
        + "}"
    )


def _encode(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()
