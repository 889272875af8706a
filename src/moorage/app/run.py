"""`moorage scheduler` from its command line to its exit code.

Owns what each failure looks like: wrong flags print usage, everything else is one log line `command
failed`, and both end with 1. `process` builds and runs the scheduler; it is imported only once the
flags are good, so that `--help` answers at once.
"""

import asyncio
import gc
import logging
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from moorage.app.logs import configure_logging, reset_logging
from moorage.app.options import EarlyExit, announce, parse_options
from moorage.connections.descriptors import raise_limit
from moorage.errors import CorruptStateError, MoorageError
from moorage.log_fields import fields

if TYPE_CHECKING:  # it brings NumPy, which `--help` does without
    from moorage.framework.plugin import Plugin

log = logging.getLogger(__name__)

_FAILED = 1
_INTERRUPTED = 130


def main(argv: Sequence[str], plugins: "Iterable[type[Plugin]]" = ()) -> int:
    """Run a scheduler as the command line says; returns the exit code."""
    # A start makes objects that stay; `kube.live` collects again once everything is known, and
    # `connections.memory` if that takes long.
    gc.disable()
    raise_limit()
    options = parse_options(argv)
    if isinstance(options, EarlyExit):
        sys.stdout.write(options.stdout)
        sys.stderr.write(options.stderr)
        return options.code
    logs = configure_logging(options.logging)
    announce(options)
    try:
        from moorage.app.process import run_scheduler

        return asyncio.run(run_scheduler(options, logs, plugins))
    except CorruptStateError as error:
        log.error("%s; starting afresh is the only way out", error)
        return _FAILED
    except MoorageError as error:
        log.error("command failed", extra=fields(err=error))
        return _FAILED
    except KeyboardInterrupt:  # before anybody listened to signals
        return _INTERRUPTED
    finally:
        gc.enable()
        reset_logging()
