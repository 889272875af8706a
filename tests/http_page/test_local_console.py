"""The page's server on loopback: whom it answers."""

import socket

import aiohttp
import pytest
from aiohttp import web

from kube.fake_api import run
from moorage.errors import InputError
from moorage.http.endpoints import Route
from moorage.http.local_console import LocalConsole


async def _hello(request: web.Request) -> web.Response:
    return web.Response(text=f"hello from {request.path}")


async def _broken(request: web.Request) -> web.Response:
    raise RuntimeError("a secret of the inside")


ROUTES = (Route("/explain/v1", _hello, prefix=True), Route("/broken", _broken))


def asked(
    path: str, host: str | None = None, more: dict[str, str] | None = None
) -> tuple[int, str, str]:
    async def scenario() -> tuple[int, str, str]:
        console = LocalConsole()
        await console.start(ROUTES)
        port = console.url.split(":")[2].split("/")[0]
        headers = {} if host is None else {"Host": host.replace("PORT", port)}
        headers |= {name: value.replace("PORT", port) for name, value in (more or {}).items()}
        async with (
            aiohttp.ClientSession() as session,
            session.get(
                f"http://127.0.0.1:{port}{path}", headers=headers, allow_redirects=False
            ) as answer,
        ):
            found = (answer.status, await answer.text(), answer.headers.get("Location", ""))
        await console.stop()
        return found

    return run(scenario())


@pytest.mark.parametrize("host", ["127.0.0.1:PORT", "localhost:PORT", "LOCALHOST:PORT"])
def test_this_machine_is_answered(host: str) -> None:
    assert asked("/explain/v1/pods", host)[:2] == (200, "hello from /explain/v1/pods")


@pytest.mark.parametrize(
    "host",
    [
        "harbour.example:PORT",
        "127.0.0.1.harbour.example:PORT",
        "localhost.harbour.example:PORT",
        "127.0.0.1:1",
        "localhost",
        "127.0.0.1",
        "",
    ],
)
def test_a_name_that_leads_here_by_a_trick_is_not_answered(host: str) -> None:
    status, body, _ = asked("/explain/v1/pods", host)
    assert status == 421
    assert "hello" not in body
    assert "answered only under the name 127.0.0.1:" in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://harbour.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_origin_is_not_answered(headers: dict[str, str]) -> None:
    status, body, _ = asked("/explain/v1/pods", more=headers)
    assert status == 403
    assert "hello" not in body


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "same-origin"},
        {
            "Sec-Fetch-Site": "cross-site",
            "Sec-Fetch-Mode": "navigate",
            "Sec-Fetch-Dest": "document",
        },
    ],
    ids=["its own pages", "a link"],
)
def test_its_own_pages_and_links_are_answered(headers: dict[str, str]) -> None:
    assert asked("/explain/v1/pods", more=headers)[0] == 200


def test_the_root_leads_to_the_page() -> None:
    assert asked("/")[::2] == (307, "/explain/")


def test_what_is_not_there_is_said_in_a_sentence() -> None:
    status, body, _ = asked("/metrics")
    assert status == 404
    assert "There is nothing here; try /explain/" in body


def test_a_broken_page_tells_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    status, body, _ = asked("/broken")
    assert status == 500
    assert "secret" not in body
    assert "GET /broken failed" in caplog.text


def test_a_port_in_use_is_told_before_anything_is_served() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="address already in use"):
            LocalConsole(taken.getsockname()[1])
