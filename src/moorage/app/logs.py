"""Logging as kube-scheduler does it: verbosity, patterns of files, streams.

`configure_logging` installs one set of handlers for the whole process; what call sites write is
told in `moorage.log_fields`. Messages of other libraries appear from warnings on.

Owns which records are printed and where they go; how they look is in `log_formats`. Must not
import anything above `config`.
"""

import atexit
import fnmatch
import io
import logging
import sys
import threading
from pathlib import PurePath
from typing import TextIO

from moorage.app.log_formats import JsonFormatter, TextFormatter
from moorage.app.logging_options import LoggingOptions
from moorage.log_fields import DEBUG_VERBOSITY, V, verbosity_of

_MOORAGE = "moorage"


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
        """Undo `install`; what is kept back is written."""
        self._stopped.set()
        for handler in self._handlers:
            logging.getLogger().removeHandler(handler)
            handler.flush()

    def flush(self) -> None:
        """Write what is kept back."""
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
        options,
        sys.stdout if stdout is None else stdout,
        sys.stderr if stderr is None else stderr,
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
    """Keeps lines back until there are enough of them."""

    def __init__(self, stream: TextIO, size: int) -> None:
        super().__init__(stream)
        self._size = size
        self._kept = io.StringIO()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record) + self.terminator
        except Exception:
            self.handleError(record)
            return
        if self._kept.tell() + len(line) > self._size:
            self.flush()
        self._kept.write(line)

    def flush(self) -> None:
        with self.lock or threading.RLock():
            text = self._kept.getvalue()
            self._kept = io.StringIO()
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
