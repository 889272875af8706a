"""Logging as kube-scheduler does it: options, formats, verbosity, patterns of files, streams.

`configure_logging` installs one set of handlers for the whole process; call sites use
`moorage.log_fields`. Messages of other libraries appear from warnings on.

Owns the values of the logging flags, which records are printed and where they go, klog's text and
component-base's JSON format, and that nothing in a record can forge a line, control a terminal or
reveal a secret. Must not import anything above `config`.
"""

import atexit
import fnmatch
import io
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TextIO

import msgspec

from moorage.config.feature_gates import FeatureGates
from moorage.config.field_errors import forbidden, go_json, invalid, quoted
from moorage.log_fields import DEBUG_VERBOSITY, KObj, V, fields_of, verbosity_of
from moorage.model.duration import Duration
from moorage.printable import continued, printable
from moorage.redaction import redacted

FORMATS = ("text", "json")
DEFAULT_FLUSH_FREQUENCY = Duration.of_seconds(5)
_SEVERITIES = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"))
_ERROR = "err"
_MOORAGE = "moorage"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Where a format's messages go."""

    split: bool = False
    """Errors to standard error, all else to standard output; otherwise all to standard error."""
    info_buffer_size: int = 0
    """Bytes to buffer of what goes to standard output."""


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """How the process logs."""

    format: str = "text"
    flush_frequency: Duration = DEFAULT_FLUSH_FREQUENCY
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    """Verbosity by pattern of a source file's name, without its ending."""
    text: StreamOptions = StreamOptions()
    json: StreamOptions = StreamOptions()

    @property
    def streams(self) -> StreamOptions:
        """The streams of the chosen format."""
        return self.json if self.format == "json" else self.text

    def errors(self, gates: FeatureGates) -> list[str]:
        """Everything that is wrong."""
        errors = []
        if self.flush_frequency <= Duration(0):
            text = "Must be greater than zero"
            errors.append(invalid("flushFrequency", str(self.flush_frequency), text))
        if self.format not in FORMATS:
            errors.append(invalid("format", self.format, "Unsupported log format"))
        elif self.format == "json" and not gates.enabled("LoggingBetaOptions"):
            text = "Log format json is disabled, see LoggingBetaOptions feature"
            errors.append(forbidden("format", text))
        if self.vmodule and self.format not in ("", "text"):
            errors.append(forbidden("vmodule", "Only supported for text log format"))
        if not gates.enabled("LoggingAlphaOptions"):
            for name, streams in (("text", self.text), ("json", self.json)):
                errors += _alpha_errors(f"options.{name}", streams)
        return errors


def _alpha_errors(path: str, streams: StreamOptions) -> list[str]:
    text = "Feature LoggingAlphaOptions is disabled"
    given = {"splitStream": streams.split, "infoBufferSize": streams.info_buffer_size}
    return [forbidden(f"{path}.{name}", text) for name, value in given.items() if value]


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
    if type(value) is int:
        return f"={value}"
    return f"={go_json(_json_value(value))}"


def _text_string(text: str) -> str:
    if "\n" not in text:
        return f"={quoted(text)}"
    return f"=<{continued(text.removesuffix(chr(10)))}\n >"


def _json_value(value: Any) -> Any:
    """A value in the types that JSON has; what has none becomes a string."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, KObj):
        shown = {"name": value.name, "namespace": value.namespace}
        return {key: item for key, item in shown.items() if item or key == "name"}
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, set | frozenset):
        return {item: {} for item in sorted(value)}  # as Go's sets are written
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


class Logs:
    """The installed handlers, and the verbosity that may change while the process runs."""

    def __init__(self, options: LoggingOptions, stdout: TextIO, stderr: TextIO) -> None:
        self._options = options
        self._filter = _Verbosity(options)
        self._handlers = _handlers(options, stdout, stderr)
        for handler in self._handlers:
            handler.setFormatter(JsonFormatter() if options.format == "json" else TextFormatter())
            handler.addFilter(self._filter)
        self._stopped = threading.Event()
        self._apply()

    @property
    def verbosity(self) -> int:
        """What `-v` is at the moment."""
        return self._filter.verbosity

    def set_verbosity(self, verbosity: int) -> None:
        """Change `-v`, as `/debug/flags/v` does."""
        self._filter.verbosity = verbosity
        self._apply()

    def install(self) -> None:
        """Let the process log here."""
        root = logging.getLogger()
        for handler in self._handlers:
            root.addHandler(handler)
        root.setLevel(logging.WARNING)
        if any(isinstance(handler, _BufferedHandler) for handler in self._handlers):
            threading.Thread(target=self._flush_often, name="log-flush", daemon=True).start()

    def remove(self) -> None:
        """Undo `install`; buffered lines are written."""
        self._stopped.set()
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
            handler.flush()

    def flush(self) -> None:
        """Write buffered lines."""
        for handler in self._handlers:
            handler.flush()

    def _apply(self) -> None:
        """Set the level below which the standard library does not even make a record."""
        highest = max([self.verbosity, *(level for _, level in self._options.vmodule)])
        level = V(highest)
        if highest >= DEBUG_VERBOSITY:
            level = min(level, logging.DEBUG)
        logging.getLogger(_MOORAGE).setLevel(level)

    def _flush_often(self) -> None:
        while not self._stopped.wait(self._options.flush_frequency.seconds):
            self.flush()


_installed: list[Logs] = []
"""At most one: the logging of a process is global, as the standard library has it."""


def configure_logging(
    options: LoggingOptions, stdout: TextIO | None = None, stderr: TextIO | None = None
) -> Logs:
    """Log as the options say from now on; what was configured before ends."""
    reset_logging()
    logs = Logs(
        options, sys.stdout if stdout is None else stdout, sys.stderr if stderr is None else stderr
    )
    logs.install()
    _installed.append(logs)
    atexit.register(logs.flush)
    return logs


def reset_logging() -> None:
    """Take away what `configure_logging` installed."""
    while _installed:
        logs = _installed.pop()
        logs.remove()
        atexit.unregister(logs.flush)
        logging.getLogger(_MOORAGE).setLevel(logging.NOTSET)


def set_verbosity(verbosity: int) -> None:
    """Change `-v` of the configured logging, if there is one."""
    for logs in _installed:
        logs.set_verbosity(verbosity)


class _Verbosity(logging.Filter):
    """Lets a record pass if `-v`, or `--vmodule` for its file, is high enough."""

    def __init__(self, options: LoggingOptions) -> None:
        super().__init__()
        self.verbosity = options.verbosity
        self._patterns = options.vmodule
        self._by_file: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        needed = verbosity_of(record.levelno)
        if needed <= self.verbosity:
            return True
        return bool(self._patterns) and needed <= self._of_file(record.pathname)

    def _of_file(self, path: str) -> int:
        if path not in self._by_file:
            name = PurePath(path).stem
            self._by_file[path] = next(
                (level for pattern, level in self._patterns if fnmatch.fnmatchcase(name, pattern)),
                0,
            )
        return self._by_file[path]


class _BufferedHandler(logging.StreamHandler[TextIO]):
    """Buffers lines until there are enough of them."""

    def __init__(self, stream: TextIO, size: int) -> None:
        super().__init__(stream)
        self._size = size
        self._buffer = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
        except Exception:
            self.handleError(record)
            return
        if self._buffer.tell() + len(line) > self._size:
            self.flush()
        self._buffer.write(line)

    def flush(self) -> None:
        with self.lock or threading.RLock():
            text = self._buffer.getvalue()
            self._buffer = io.StringIO()
            if text:
                self.stream.write(text)
            super().flush()


def _handlers(options: LoggingOptions, stdout: TextIO, stderr: TextIO) -> list[logging.Handler]:
    streams = options.streams
    errors = logging.StreamHandler(stderr)
    if not streams.split:
        return [errors]
    errors.setLevel(logging.ERROR)
    infos: logging.Handler = logging.StreamHandler(stdout)
    if streams.info_buffer_size > 0:
        infos = _BufferedHandler(stdout, streams.info_buffer_size)
    infos.addFilter(lambda record: record.levelno < logging.ERROR)
    return [errors, infos]
