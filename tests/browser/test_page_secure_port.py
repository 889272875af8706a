"""The page on a scheduler's secure port: loaded by anybody, filled only for those who may ask."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from playwright.sync_api import expect

from browser.conftest import OpenPage, Watch
from browser.harbours import Harbour
from moorage.controlplane.processes import free_port
from secure_port.port import Reviews, serving_files

_SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def authority(tmp_path: Path) -> trustme.CA:
    """An authority for clients, whose certificate is in a file for the scheduler."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "clients.crt"))
    return made


@pytest.fixture
def reviews(tmp_path: Path) -> Iterator[str]:
    """A kubeconfig for an API server that knows one token, whose holder may read explanations."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def begin() -> Reviews:
        made = Reviews()
        made.users["pilot-token"] = {"username": "pilot"}
        made.allowed = lambda spec: {
            "allowed": spec["user"] == "pilot"
            and spec["nonResourceAttributes"]["path"].startswith("/explain/v1/")
        }
        return await made.__aenter__()

    known = asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    yield known.kubeconfig(tmp_path)
    asyncio.run_coroutine_threadsafe(known.__aexit__(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.close()


@pytest.fixture
def scheduler(
    small_harbour: Harbour, reviews: str, authority: trustme.CA, tmp_path: Path
) -> Iterator[str]:
    """A scheduler that watches the small harbour without touching it; the address of its page."""
    del authority  # its file is what the flag names
    port = free_port()
    flags = ["--shadow", "--explain-page", "--kubeconfig", str(small_harbour.kubeconfig)]
    flags += ["--authentication-kubeconfig", reviews, "--authorization-kubeconfig", reviews]
    flags += ["--authentication-skip-lookup", "--leader-elect=false", "-v=2"]
    flags += ["--client-ca-file", str(tmp_path / "clients.crt")]
    flags += ["--secure-port", str(port), "--bind-address", "127.0.0.1"]
    with subprocess.Popen(
        [sys.executable, "-m", "moorage", "scheduler", *flags],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(_SOURCE)},
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "Serving securely" in line:
                break
        else:
            raise AssertionError(f"the scheduler ended:\n{''.join(said)}")
        draining = threading.Thread(target=process.stderr.read)
        draining.start()
        yield f"https://127.0.0.1:{port}/explain/"
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        draining.join(30)


def test_the_page_asks_for_a_token_and_shows_nothing_without_a_right(
    scheduler: str, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (401, 403)
    page = open_page(scheduler, "#/queue", ignore_https_errors=True)
    dialog = page.get_by_role("dialog", name="Who are you?")
    expect(dialog).to_contain_text('User "system:anonymous" cannot get path')
    expect(page.locator("main")).not_to_contain_text("harbour/")
    field = page.get_by_label("Bearer token")
    field.fill("a stranger's token")
    field.press("Enter")
    expect(dialog).to_contain_text("The scheduler answered: Unauthorized")
    field.fill("pilot-token")
    field.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("row").filter(has_text="harbour/dinghy")).to_be_visible()
    page.get_by_role("link", name="harbour/dinghy").click()
    expect(page.locator("article[data-kind=tolerateTaint]")).to_be_visible()
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator("main")).to_contain_text("Live.")


def test_a_dialog_that_is_dismissed_leaves_the_refusal_on_the_page(
    scheduler: str, open_page: OpenPage, watch: Watch
) -> None:
    watch.refused = (401, 403)
    page = open_page(scheduler, "#/configuration", ignore_https_errors=True)
    dialog = page.get_by_role("dialog", name="Who are you?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("alert")).to_contain_text('User "system:anonymous" cannot get path')


def _shown(folder: Path, authority: trustme.CA, address: str, name: str) -> dict[str, Any]:
    """Options of a browser that shows a certificate of this name to the scheduler."""
    files = serving_files(folder, authority, f"{name}@example.com", stem=name, common_name=name)
    certificate = {
        "origin": address.removesuffix("/explain/"),
        "certPath": files.cert,
        "keyPath": files.key,
    }
    return {"ignore_https_errors": True, "client_certificates": [certificate]}


def test_with_a_client_certificate_no_token_is_asked_for(
    scheduler: str, authority: trustme.CA, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(scheduler, "#/map", **_shown(tmp_path, authority, scheduler, "pilot"))
    expect(page.locator("main")).to_contain_text("20nodes")
    page.get_by_role("link", name="Queue").click()
    expect(page.get_by_role("row").filter(has_text="harbour/dinghy")).to_be_visible()
    page.get_by_role("link", name="Decisions").click()
    expect(page.locator("main")).to_contain_text("Live.")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0


@pytest.mark.parametrize("name", ["", "stowaway"], ids=["no-certificate", "of-a-stranger"])
def test_without_the_certificate_of_somebody_who_may_ask_a_token_is_asked_for(
    scheduler: str,
    authority: trustme.CA,
    open_page: OpenPage,
    watch: Watch,
    tmp_path: Path,
    name: str,
) -> None:
    watch.refused = (403,)
    options = (
        _shown(tmp_path, authority, scheduler, name) if name else {"ignore_https_errors": True}
    )
    page = open_page(scheduler, "#/map", **options)
    dialog = page.get_by_role("dialog", name="Who are you?")
    expect(dialog).to_contain_text(f'User "{name or "system:anonymous"}" cannot get path')
    expect(page.locator("main")).not_to_contain_text("pods on nodes")
