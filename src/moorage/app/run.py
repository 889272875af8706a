"""`moorage scheduler` from its command line to its exit code.

Owns the steps before a process runs and what each of their failures looks like: wrong flags print
usage, everything else is one log line `command failed`, and both end with 1.
"""

import asyncio
import contextlib
import gc
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moorage.app.config_sources import Source, source_of
from moorage.app.logs import Logs, configure_logging, reset_logging
from moorage.app.merged_config import Completed, complete, log_or_write_config
from moorage.app.options import EarlyExit, Options, announce, parse_options
from moorage.app.port import Port
from moorage.app.process import DONE, FAILED, Process, build
from moorage.connections.descriptors import raise_limit
from moorage.errors import CorruptStateError, MoorageError
from moorage.kube.access import Access
from moorage.kube.access_discovery import scheduler_access
from moorage.kube.client import KubeClient
from moorage.log_fields import fields
from moorage.metrics.exporter import AllMetrics
from moorage.simulator.world import full_registry

if TYPE_CHECKING:  # loaded only where they are needed
    from moorage.ledger import Ledger

log = logging.getLogger(__name__)

_INTERRUPTED = 130


def main(argv: Sequence[str]) -> int:
    """Run a scheduler as the command line says; returns the exit code."""
    # A start makes objects that stay; `kube.live` collects again once everything is known.
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
        return asyncio.run(_run(options, logs))
    except CorruptStateError as error:
        log.error("%s; starting afresh is the only way out", error)
        return FAILED
    except MoorageError as error:
        log.error("command failed", extra=fields(err=error))
        return FAILED
    except KeyboardInterrupt:  # before anybody listened to signals
        return _INTERRUPTED
    finally:
        gc.enable()
        reset_logging()


async def _run(options: Options, logs: Logs) -> int:
    completed, source = await _completed(options)
    metrics = AllMetrics(completed.gates, options.metrics)
    port = _port(completed, metrics)
    try:
        access = _access(completed)
        registry = full_registry()
        scheduler = build(completed, registry, metrics)
        shown = log_or_write_config(completed.config, options.write_config_to)
        if options.write_config_to:
            return DONE
        ledger = _ledger(completed)
        if ledger is not None:
            scheduler.record(ledger.recorder)
        process = Process(
            completed, shown, source, scheduler, registry, metrics, access, port, logs, ledger
        )
        port_is_its = process.run()
    except BaseException:
        if port is not None:
            port.abandon()
        raise
    return await port_is_its


async def _completed(options: Options) -> tuple[Completed, Source | None]:
    """The configuration to begin with, and where it can be read again."""
    checked = complete(options)
    source = source_of(options)
    if source is None or options.config_file:
        return checked, source
    async with contextlib.AsyncExitStack() as stack:
        client: KubeClient | None = None
        if source.config_map is not None:
            kubeconfig = options.client_connection.get("kubeconfig", "")
            access = scheduler_access(kubeconfig, options.master)
            client = await stack.enter_async_context(KubeClient(access))
        config = await source.load(client)
    return Completed(config, checked.gates, options, checked.flag_values), source


def _port(completed: Completed, metrics: AllMetrics) -> Port | None:
    return None if completed.options.serving.secure_port == 0 else Port(completed, metrics)


def _ledger(completed: Completed) -> "Ledger | None":
    """The ledger of the flags; an `InputError` if its directory cannot be used."""
    own = completed.options.moorage
    anybody = own.ledger or own.explain_annotations or completed.options.serving.secure_port
    if own.ledger_memory == 0 or not anybody:
        return None
    from moorage.ledger import Ledger

    return Ledger(own.ledger_memory, own.ledger or None)


def _access(completed: Completed) -> Access:
    return scheduler_access(completed.config.client_connection.kubeconfig, completed.options.master)
