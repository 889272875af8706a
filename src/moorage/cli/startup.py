"""How a command's process starts: NumPy's threads, its log, and what uncaught exceptions look like.

Owns the format of logs on standard error, a line each. The scheduler's logging is `app.logs`.
"""

import logging
import os
import sys
import traceback
from types import TracebackType

from moorage.log_fields import fields_of
from moorage.printable import continued, printable
from moorage.redaction import redacted


class CommandFormatter(logging.Formatter):
    """`WARNING message field="value"`; a traceback follows on indented lines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without the break at its end."""
        line = f"{record.levelname} {printable(record.getMessage())}"
        for name, value in (fields_of(record) or {}).items():
            line += f' {name}="{printable(str(value))}"'
        if record.exc_info:
            line += continued(self.formatException(record.exc_info))
        return redacted(line)


def log_to_stderr(level: int = logging.WARNING) -> None:
    """Log from this level on, unless somebody has configured logging already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(CommandFormatter())
    logging.basicConfig(handlers=[handler], level=level)


def print_safely() -> None:
    """Format uncaught exceptions, and log records without a handler, the same way."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(CommandFormatter())
    sys.excepthook = _print_traceback


def _print_traceback(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    text = "".join(traceback.format_exception(kind, error, trace)).rstrip("\n")
    print("moorage: unexpected error:" + redacted(continued(text)), file=sys.stderr)


def spare_threads() -> None:
    """Ask OpenBLAS for one thread, before NumPy is loaded, unless the user asks for more.

    Nothing here multiplies matrices, and its threads spin while they wait for work: they took a
    fifth of the processor time of a scheduler's start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
