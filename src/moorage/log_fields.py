"""Structured log messages at verbosity levels, for every layer.

A message with fields is constant and says what happened; the fields say to whom:

    log = logging.getLogger(__name__)
    log.info("Starting Kubernetes Scheduler", extra=fields(version="v1.36.4"))
    log.error("command failed", extra=fields(err=error))
    log.log(V(2), "Add event for scheduled pod", extra=fields(pod=KObj("default", "web-0")))

`app.logs` prints it as klog does: `I… file.py:12] "message" key="value"`, or as JSON. A message
without fields is printed as it is, so `log.info("%s lists %d", name, count)` stays fine. `V(n)` is
the level of `-v=n`; `logging.DEBUG` counts as V(4). Levels are plain numbers of the standard
library, so what is switched off costs no more than `isEnabledFor`.

Owns those conventions. Must not format or write anything, nor import anything of Moorage.
"""

import logging
from typing import Any, NamedTuple

DEBUG_VERBOSITY = 4
"""The verbosity at which `logging.DEBUG` appears."""

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
