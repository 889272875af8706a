"""Structured log messages at verbosity levels, for every layer.

A message with fields is constant and says what happened; the fields say to whom:

    log = logging.getLogger(__name__)
    log.info("Starting Kubernetes Scheduler", extra=fields(version="v1.37.1"))
    log.error("command failed", extra=fields(err=error))
    log.log(V(2), "Add event for scheduled pod", extra=fields(pod=KObj("default", "web-0")))

`app.logs` prints it as klog does: `I… file.py:12] "message" key="value"`, or as JSON. A message
without fields is printed as it is, so `log.info("%s lists %d", name, count)` stays fine. `V(n)` is
the level of `-v=n`; `logging.DEBUG` counts as V(4). Levels are plain numbers of the standard
library, so what is switched off costs no more than `isEnabledFor`.

A message that kube-scheduler writes about pods is a `Line` of `moorage.log_lines` or of the plugin
that writes it: its words, verbosity and fields stand in one place, and it costs next to nothing
while it is not written.

Owns those conventions. Must not format or write anything, nor import anything of Moorage.
"""

import logging
from typing import Any, NamedTuple

DEBUG_VERBOSITY = 4
"""The verbosity at which `logging.DEBUG` appears."""

UNHANDLED = "UnhandledError"
"""The name under which kube-scheduler logs errors that nobody else is told of."""

_ATTRIBUTE = "moorage_fields"


class KObj(NamedTuple):
    """A reference to an API object: `namespace/name`, or the name alone."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def fields(**values: Any) -> dict[str, Any]:
    """The `extra` of a log call that carries these fields, in this order."""
    return {_ATTRIBUTE: values}


def fields_of(record: logging.LogRecord) -> dict[str, Any] | None:
    """The fields of a record, or None where the message is a plain text."""
    found: dict[str, Any] | None = getattr(record, _ATTRIBUTE, None)
    return found


def V(verbosity: int) -> int:  # noqa: N802  (klog's own name, as every Kubernetes developer reads it)
    """The level of messages that appear from `-v=verbosity` on."""
    level = logging.INFO - verbosity
    # DEBUG itself has a meaning of its own, so levels below skip its number.
    return level if level > logging.DEBUG else max(level - 1, 1)


def verbosity_of(level: int) -> int:
    """The verbosity from which messages of a level appear; 0 for warnings and errors."""
    if level >= logging.INFO:
        return 0
    if level == logging.DEBUG:
        return DEBUG_VERBOSITY
    return logging.INFO - level - (1 if level < logging.DEBUG else 0)


class Line:
    """A message with its level and the names of its fields: called with the values, it is written.

    API objects among the values are written as references. It is true while it would be written:
    ask it first where the values cost something. `logger` is klog's name for who writes, which
    kube-scheduler adds to the lines of its plugins from `-v=4` on, and always to UNHANDLED errors.
    """

    __slots__ = ("_level", "_logger", "_names", "_text")

    def __init__(self, level: int, text: str, *names: str, logger: str = "") -> None:
        self._level = level
        self._text = text
        self._names = names
        self._logger = logger

    def __bool__(self) -> bool:
        return _lines.isEnabledFor(self._level)

    def __call__(self, *values: Any, trace: BaseException | None = None) -> None:
        """Write it, if its level is written; fields at the end may be left out."""
        if not _lines.isEnabledFor(self._level):
            return
        given = {name: _shown(value) for name, value in zip(self._names, values, strict=False)}
        if self._logger and (self._logger == UNHANDLED or _lines.isEnabledFor(V(4))):
            given = {"logger": self._logger} | given
        _lines.log(self._level, self._text, extra=fields(**given), exc_info=trace, stacklevel=2)


_lines = logging.getLogger(__name__)


def _shown(value: Any) -> Any:
    meta = getattr(value, "metadata", None)
    return value if meta is None else KObj(meta.namespace, meta.name)
