"""A real Chromium, and pages of it that must neither complain nor talk to anybody else."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from browser.canned_api import CannedApi
from browser.harbours import Harbour, harbour
from moorage.http.explain_page import page_routes
from moorage.http.local_console import LocalConsole

CHROMIUM = os.environ.get("MOORAGE_CHROMIUM", "/usr/bin/chromium")
# As root, and without Chromium's own errands on the network.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
expect.set_options(timeout=30_000)  # a machine may be busy; nothing waits longer than it must
OpenPage = Callable[..., Page]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Playwright's event loop stays until the end, and other tests run loops of their own."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here in item.path.parents)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        message = (
            f"no Chromium at {CHROMIUM}: apt-get install chromium (or name it in MOORAGE_CHROMIUM)"
        )
        if os.environ.get("MOORAGE_BROWSER_REQUIRED") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


class Watch:
    """What a page said to its console and whom it asked."""

    def __init__(self) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.refused: tuple[int, ...] = ()
        """Statuses that a test provokes; Chromium itself writes a line about each."""

    def attach(self, page: Page) -> None:
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))

    def _said(self, message: ConsoleMessage) -> None:
        expected = any(
            f"the server responded with a status of {code}" in message.text for code in self.refused
        )
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme != "data":
            self.hosts.add(parts.netloc)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def open_page(chromium: Browser, watch: Watch) -> Iterator[OpenPage]:
    """Open an address; whatever else the test looks at, the console must stay silent."""
    contexts: list[BrowserContext] = []
    opened: set[str] = set()

    def opening(
        url: str, view: str = "", *, dark: bool = False, width: int = 1280, **options: Any
    ) -> Page:
        scheme: Any = "dark" if dark else "light"
        size: Any = {"width": width, "height": 860}
        context = chromium.new_context(color_scheme=scheme, viewport=size, **options)
        contexts.append(context)
        page = context.new_page()
        watch.attach(page)
        opened.add(urlsplit(url).netloc)
        page.goto(f"{url}{view}")
        return page

    yield opening
    for context in contexts:
        context.close()
    assert watch.complaints == []
    assert watch.hosts <= opened, "the page asked another host"


@pytest.fixture(scope="session")
def small_harbour(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    del chromium  # without one no cluster is started
    with harbour(tmp_path_factory.mktemp("small"), 20) as running:
        yield running


@pytest.fixture(scope="session")
def large_harbour(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    del chromium
    with harbour(tmp_path_factory.mktemp("large"), 5000) as running:
        yield running


@pytest.fixture
def served() -> Iterator[Callable[[CannedApi], str]]:
    """Serve the page over made-up answers; returns its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    consoles: list[LocalConsole] = []

    def serve(api: CannedApi) -> str:
        async def start() -> str:
            console = LocalConsole()
            consoles.append(console)
            await console.start([*page_routes(), *api.routes()])
            return console.url

        return asyncio.run_coroutine_threadsafe(start(), loop).result(30)

    yield serve
    for console in consoles:
        asyncio.run_coroutine_threadsafe(console.stop(), loop).result(30)
    asyncio.run_coroutine_threadsafe(_ended(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


async def _ended() -> None:
    """Streams do not end by themselves."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
