"""The secure port of a process: opened at the start, made ready when it pays.

Owns when the server behind the port is loaded. Where flags name files or clusters, all of that is
read at once, so that what is wrong with it is found before anything else is started. Where they do
not, there is nothing to find: the port listens, and libraries and key are left for the first
visitor, which spares a start half of its processor time.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from moorage.app.merged_config import Completed
from moorage.app.options import Options
from moorage.errors import MoorageError
from moorage.http.chart_library import chart_library
from moorage.http.listener import joined, open_listener
from moorage.http.options import ServingOptions
from moorage.metrics.exporter import AllMetrics

if TYPE_CHECKING:
    from moorage.http.endpoints import Endpoints
    from moorage.http.secure_port import SecurePort

log = logging.getLogger(__name__)


class Port:
    """The port of the flags."""

    def __init__(
        self, completed: Completed, metrics: AllMetrics, env: Mapping[str, str] = os.environ
    ) -> None:
        self._completed = completed
        self._metrics = metrics
        self._listener: socket.socket | None = None
        self._made: SecurePort | None = None
        self._pages: Callable[[], Endpoints] | None = None
        self._making: asyncio.Task[None] | None = None
        self._on_failure: Callable[[], None] | None = None
        self.failure: MoorageError | None = None
        """Why it is not served, if that was found out with the first visitor."""
        if completed.options.moorage.explain_page:
            chart_library()
        if can_wait(completed.options, env):
            self._listener = open_listener(completed.options.serving)
        else:
            self._made = self._make(None)

    async def start(self, pages: "Callable[[], Endpoints]", on_failure: Callable[[], None]) -> None:
        """Serve the pages, or be ready to; `InputError` if the cluster tells not whom to trust.

        `on_failure` is called if it turns out later that nothing can be served.
        """
        self._pages = pages
        self._on_failure = on_failure
        if self._made is not None:
            await self._made.look_up()
            await self._made.start(pages())
            return
        assert self._listener is not None
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._knocked)
        log.info("Serving securely on %s", joined(*self._listener.getsockname()[:2]))

    async def stop(self) -> None:
        """Accept no more, let requests end, close everything."""
        if self._making is not None:
            self._making.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._making
        if self._made is not None:
            await self._made.stop()
        elif self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
            self._listener.close()

    def abandon(self) -> None:
        """Give the port back without ever having served."""
        if self._made is not None:
            self._made.server.abandon()
        elif self._listener is not None:
            self._listener.close()

    def _make(self, listener: socket.socket | None) -> "SecurePort":
        from moorage.app.pages import open_port

        return open_port(self._completed, self._metrics, listener)

    def _knocked(self) -> None:
        """The first visitor: those who come meanwhile wait in the socket's queue."""
        assert self._listener is not None
        asyncio.get_running_loop().remove_reader(self._listener.fileno())
        self._making = asyncio.create_task(self._open(), name="secure port")

    async def _open(self) -> None:
        assert self._pages is not None
        assert self._on_failure is not None
        try:
            # Loading takes a while, in which pods go on being scheduled.
            await asyncio.to_thread(import_module, "moorage.app.pages")
            self._made = self._make(self._listener)
            self._made.server.announced = True
            await self._made.start(self._pages())
        except Exception as error:
            # A process that nobody can ask how it is must not be left running.
            told = str(error)
            if not isinstance(error, MoorageError):
                log.exception("The secure port cannot be served")
                told = f"{type(error).__name__}: {error}"
            self.failure = MoorageError(f"the secure port cannot be served: {told}")
            self._on_failure()


def can_wait(options: Options, env: Mapping[str, str]) -> bool:
    """Is there nothing that a look at the flags' files or at a cluster could find wrong?"""
    serving, authentication = options.serving, options.authentication
    plain = ServingOptions(
        bind_address=serving.bind_address,
        secure_port=serving.secure_port,
        permit_port_sharing=serving.permit_port_sharing,
        permit_address_sharing=serving.permit_address_sharing,
        connections=serving.connections,
    )
    asks_a_cluster = (
        authentication.kubeconfig
        or options.authorization.kubeconfig
        or "KUBERNETES_SERVICE_HOST" in env
    )
    reads_files = authentication.client_ca_file or authentication.request_header.client_ca_file
    return serving == plain and not asks_a_cluster and not reads_files
