"""A web server for tests, whose subclasses say what it answers."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web


class Answering(ABC):
    """Listens on loopback while it is served; `url` says where."""

    url = ""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Answer until the end of the `async with` statement."""
        runner = web.ServerRunner(web.Server(self._answer), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()

    @abstractmethod
    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What to answer."""
