"""The page's files and their headers, and what their text must never hold."""

import asyncio
import gzip
import re
import socket
import threading
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from kube.fake_api import run
from moorage.http import explain_page
from moorage.http.explain_page import CONTENT_SECURITY_POLICY, page_routes
from moorage.http.local_console import LocalConsole
from moorage.http.options import EXPLAIN_ASSETS, EXPLAIN_PUBLIC_PATHS

FOLDER = Path(str(files("moorage.http").joinpath("page")))
SOURCES = {path.name: path.read_text() for path in sorted(FOLDER.iterdir())}
SCRIPTS = {name: text for name, text in SOURCES.items() if name.endswith(".js")}

LIBRARY = f"{EXPLAIN_ASSETS}/plotly.min.js"


class Answered:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


def asked(*paths: str, method: str = "GET", **headers: str) -> list[Answered]:
    async def scenario() -> list[Answered]:
        console = LocalConsole()
        await console.start(page_routes())
        root = console.url.removesuffix("/explain/")
        given = {"Accept-Encoding": "identity"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        found = []
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            for path in paths:
                options = {"headers": given, "allow_redirects": False}
                async with session.request(method, f"{root}{path}", **options) as answer:  # type: ignore[arg-type]
                    found.append(Answered(answer.status, answer.headers, await answer.read()))
        await console.stop()
        return found

    return run(scenario())


def test_the_page_and_everything_it_names_is_served() -> None:
    (page,) = asked("/explain/")
    assert page.status == 200
    named = re.findall(r'(?:src|href)="(page/[^"]+)"', page.body.decode())
    imported = [
        f"page/{name}" for text in SCRIPTS.values() for name in re.findall(r'"\./(\w+\.js)"', text)
    ]
    wanted = sorted({*named, *imported, "page/plotly.min.js"})
    assert "page/main.js" in wanted
    assert "page/heat_map.js" in wanted
    answers = asked(*(f"/explain/{path}" for path in wanted))
    assert {
        path: found.status for path, found in zip(wanted, answers, strict=True)
    } == dict.fromkeys(wanted, 200)


def test_every_file_of_the_page_is_part_of_the_installed_package() -> None:
    project = (FOLDER.parents[3] / "pyproject.toml").read_text()
    assert '"http/page/*"' in project
    assert not [path for path in FOLDER.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/explain/", "text/html; charset=utf-8"),
        (f"{EXPLAIN_ASSETS}/main.js", "text/javascript; charset=utf-8"),
        (f"{EXPLAIN_ASSETS}/page.css", "text/css; charset=utf-8"),
        (f"{EXPLAIN_ASSETS}/icon.svg", "image/svg+xml"),
    ],
)
def test_a_file_comes_with_its_type_and_a_policy_that_forbids_what_is_not_ours(
    path: str, kind: str
) -> None:
    (found,) = asked(path)
    assert found.headers["Content-Type"] == kind
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert found.headers["Referrer-Policy"] == "no-referrer"
    policy = found.headers["Content-Security-Policy"]
    assert policy == CONTENT_SECURITY_POLICY
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert "*" not in policy


def test_a_file_is_compressed_for_those_who_can_unpack_it_and_known_by_its_tag() -> None:
    (plain,) = asked(f"{EXPLAIN_ASSETS}/main.js")
    (packed,) = asked(f"{EXPLAIN_ASSETS}/main.js", Accept_Encoding="gzip, br")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == plain.body == SOURCES["main.js"].encode()
    (again,) = asked(f"{EXPLAIN_ASSETS}/main.js", If_None_Match=plain.headers["ETag"])
    assert (again.status, again.body) == (304, b"")
    (other,) = asked(f"{EXPLAIN_ASSETS}/main.js", If_None_Match='"something else"')
    assert other.status == 200


@pytest.mark.parametrize(
    "path",
    [
        f"{EXPLAIN_ASSETS}/",
        EXPLAIN_ASSETS,
        f"{EXPLAIN_ASSETS}/nothing.js",
        f"{EXPLAIN_ASSETS}/../explain_page.py",
        f"{EXPLAIN_ASSETS}/%2e%2e/explain_page.py",
        f"{EXPLAIN_ASSETS}/..%2f..%2fversion.py",
        f"{EXPLAIN_ASSETS}//etc/passwd",
        f"{EXPLAIN_ASSETS}/page/main.js",
    ],
)
def test_nothing_but_the_files_of_the_page_can_be_named(path: str) -> None:
    (found,) = asked(path)
    assert found.status == 404


def test_files_can_only_be_read() -> None:
    (found,) = asked("/explain/", method="POST")
    assert found.status == 405
    (head,) = asked("/explain/", method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_the_address_without_its_last_slash_leads_to_the_page() -> None:
    (found,) = asked("/explain")
    assert (found.status, found.headers["Location"]) == (308, "/explain/")


def test_what_anybody_may_read_is_the_page_and_not_the_api() -> None:
    assert set(EXPLAIN_PUBLIC_PATHS) == {"/explain", "/explain/", "/explain/page/*"}


def test_no_file_names_another_host() -> None:
    foreign = {
        name: found
        for name, text in SOURCES.items()
        if (found := re.findall(r"(?:https?:)?//[\w-]+\.[\w.-]+", text))
    }
    # The one below is a name, not an address: SVG is drawn without asking anybody for it.
    assert foreign == {"icon.svg": ["http://www.w3.org"]}


@pytest.mark.parametrize(
    "word",
    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
     "setHTML", "createContextualFragment", "DOMParser", "javascript:"],
)  # fmt: skip
def test_no_script_turns_text_into_markup_or_code(word: str) -> None:
    assert [name for name, text in SCRIPTS.items() if word in text] == []


def test_the_page_has_no_inline_script_or_style() -> None:
    page = SOURCES["index.html"]
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []


def test_the_page_keeps_plotly_from_adding_inline_styles() -> None:
    """Plotly asks for elements by these ids before it adds a style."""
    (page,) = asked("/explain/")
    (library,) = asked(f"{EXPLAIN_ASSETS}/plotly.min.js")
    guards = re.findall(rb'getElementById\("([0-9a-f]{64})"\)', library.body)
    assert guards
    assert all(b'<template id="%b">' % guard in page.body for guard in guards)
    assert b'id="plotly.js-style-global"' in page.body
    assert b"plotly.js-style-" in library.body


def test_without_the_chart_library_the_page_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explain_page, "find_spec", lambda name: None)
    page, library, script = asked("/explain/", LIBRARY, f"{EXPLAIN_ASSETS}/main.js")
    assert (page.status, library.status, script.status) == (200, 200, 200)
    assert library.body.decode() == (
        'export const missing = "Charts are not drawn: the Python package plotly is not installed '
        "where the scheduler runs (pip install 'moorage[page]').\";\n"
    )


def test_a_large_file_comes_whole_and_the_connection_stays() -> None:
    (plain, head) = (*asked(LIBRARY), *asked(LIBRARY, method="HEAD"))
    packed, again = asked(LIBRARY, LIBRARY, Accept_Encoding="gzip")
    path = explain_page.chart_library()
    assert path is not None
    assert plain.body == path.read_bytes()
    assert len(plain.body) == int(plain.headers["Content-Length"])
    assert head.headers["Content-Length"] == plain.headers["Content-Length"]
    assert gzip.decompress(packed.body) == plain.body == gzip.decompress(again.body)


def test_who_does_not_read_costs_little_and_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain_page, "PATIENCE_SECONDS", 0.5)
    transports: list[asyncio.Transport] = []
    really = explain_page._answer

    async def noted(request: web.Request, asset: explain_page._Asset) -> web.StreamResponse:
        assert request.transport is not None
        transports.append(request.transport)
        return await really(request, asset)

    monkeypatch.setattr(explain_page, "_answer", noted)

    async def scenario() -> None:
        console = LocalConsole()
        await console.start(page_routes())
        place = urlsplit(console.url)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, (place.hostname, place.port))
            text = f"GET {LIBRARY} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(client, text.encode())
            most = 0
            async with asyncio.timeout(60):
                while not transports or not transports[0].is_closing():
                    if transports:
                        most = max(most, transports[0].get_write_buffer_size())
                    await asyncio.sleep(0.01)
        await console.stop()
        assert 0 < most < 3 * explain_page._PIECE

    run(scenario())


def test_the_library_is_read_and_hashed_beside_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[str] = []
    really = Path.read_bytes

    def noted(path: Path) -> bytes:
        if path.name == "plotly.min.js":
            threads.append(threading.current_thread().name)
        return really(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    page, library, *_ = asked("/explain/", LIBRARY)
    assert (page.status, library.status) == (200, 200)
    assert threads
    assert threading.main_thread().name not in threads
