"""The pages: health, metrics, profiles, verbosity; and what happens to requests that go wrong."""

import asyncio
import gzip
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kube.fake_api import run
from moorage.connections.limits import ConnectionLimits
from moorage.http import profiling
from moorage.http.application import build_application
from moorage.http.endpoints import Endpoints, HealthCheck, NoObserver, ProcessStatus, Route
from moorage.http.pages import accepts_gzip
from moorage.log_fields import V, fields_of
from secure_port.port import Port, client_context, loopback_port, open_port

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


def _ask(endpoints: Endpoints, *paths: str, **asked: Any) -> list[tuple[int, str, dict[str, str]]]:
    async def scenario() -> list[tuple[int, str, dict[str, str]]]:
        async with open_port(endpoints) as port:
            return [await port.ask(path, **asked) for path in paths]

    return run(scenario())


BROKEN = HealthCheck("broken", lambda: "the disk is full")
FINE = HealthCheck("fine", lambda: None)


def test_a_failed_check_keeps_its_reason_to_its_own_path() -> None:
    endpoints = Endpoints(readyz=[FINE, BROKEN, HealthCheck("late", lambda: "not yet")])
    whole, single, quiet, rest = _ask(
        endpoints,
        "/readyz",
        "/readyz/broken",
        "/readyz?verbose&exclude=broken&exclude=late",
        "/readyz?exclude=broken",
    )
    assert whole[:2] == (
        500,
        "[+]fine ok\n[-]broken failed: reason withheld\n[-]late failed: reason withheld\n"
        "readyz check failed\n",
    )
    assert whole[2]["X-Content-Type-Options"] == "nosniff"
    assert single[:2] == (500, "internal server error: the disk is full\n")
    assert quiet[:2] == (
        200,
        "[+]fine ok\n[+]broken excluded: ok\n[+]late excluded: ok\nreadyz check passed\n",
    )
    assert rest[0] == 500


def test_a_check_that_raises_has_failed() -> None:
    def bad() -> str | None:
        raise ValueError("secret")

    whole, single = _ask(Endpoints(livez=[HealthCheck("bad", bad)]), "/livez", "/livez/bad")
    assert whole[:2] == (500, "[-]bad failed: reason withheld\nlivez check failed\n")
    assert single[:2] == (500, "internal server error: ValueError: secret\n")


class _Counting(NoObserver):
    def __init__(self) -> None:
        self.checks: list[tuple[str, str, bool]] = []

    def health_checked(self, endpoint: str, check: str, healthy: bool) -> None:
        self.checks.append((endpoint, check, healthy))


def test_the_observer_hears_of_checks() -> None:
    observer = _Counting()
    endpoints = Endpoints(readyz=[FINE, BROKEN], profiling=True)
    app = build_application(endpoints, None, None, observer)

    async def scenario() -> None:
        async with open_port(app=app) as port:
            for path in ("/readyz", "/readyz/fine", "/no/such/page"):
                await port.ask(path)

    run(scenario())
    assert observer.checks == [("readyz", "fine", True), ("readyz", "broken", False)]


def test_metrics_are_the_same_whatever_a_client_accepts_and_reset_by_delete() -> None:
    resets: list[str] = []
    endpoints = Endpoints(
        metrics=lambda: (TEXT, b"metrics\n"),
        slis=lambda: (TEXT, b"slis\n"),
        reset_metrics=lambda: resets.append("metrics"),
        resources=lambda: None,
        process_started=1234.9,
    )
    page, slis, standby = _ask(
        endpoints,
        *("/metrics", "/metrics/slis", "/metrics/resources"),
        headers={"Accept": "x/y"},
    )
    assert page[:2] == (200, "metrics\n")
    assert page[2]["Content-Type"] == TEXT
    assert page[2]["Process-Start-Time-Unix"] == "1234"
    assert slis[1] == "slis\n"
    assert standby[:2] == (200, "")
    gone = _ask(endpoints, "/metrics", "/metrics/slis", "/metrics/resources", method="DELETE")
    assert [answer[:2] for answer in gone] == [(200, "metrics reset\n")] * 2 + [(200, "")]
    assert resets == ["metrics"]


@pytest.mark.parametrize("size", [10, 1 << 17])
def test_metrics_are_compressed_for_those_who_ask(size: int) -> None:
    body = b"m 1\n" * (size // 4)

    async def scenario() -> None:
        async with (
            open_port(Endpoints(metrics=lambda: (TEXT, body))) as port,
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=client_context()), auto_decompress=False
            ) as session,
        ):
            headers = {"Accept-Encoding": "zstd, gzip;q=0.5"}
            async with session.get(f"{port.url}/metrics", headers=headers) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                assert gzip.decompress(await answer.read()) == body
            headers = {"Accept-Encoding": "identity"}
            async with session.get(f"{port.url}/metrics", headers=headers) as answer:
                assert "Content-Encoding" not in answer.headers
                assert await answer.read() == body

    run(scenario())


@pytest.mark.parametrize(
    ("header", "expected"),
    [("", False), ("gzip", True), ("br,GZIP ; q=0.1", True), ("gzip;q=0", False), ("zip", False)],
)
def test_gzip_is_used_only_if_it_is_accepted(header: str, expected: bool) -> None:
    assert accepts_gzip(header) is expected


def test_pages_behind_closed_gates_do_not_exist() -> None:
    answers = _ask(Endpoints(), "/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v")
    assert [answer[:2] for answer in answers] == [(404, "404 page not found\n")] * 4


def test_statusz_lists_all_pages_that_are_no_debugging_aids() -> None:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="because")

    endpoints = Endpoints(
        flags=dict,
        statusz=ProcessStatus(time.time() - 3725, "python3", "1.37.1"),
        profiling=True,
        extra=[Route("/explain", page, prefix=True)],
    )
    status, below, beside = _ask(endpoints, "/statusz", "/explain/default/pod", "/explained")
    assert "\nUp: 1 hr 02 min 05 sec\nGo version: python3\nBinary version: 1.37.1\n\n" in status[1]
    assert status[1].endswith("Paths: /configz /explain /flagz /healthz /livez /metrics /readyz\n")
    assert below[1] == "because"
    assert beside[0] == 404


def test_verbosity_is_set_by_put() -> None:
    levels: list[int] = []
    endpoints = Endpoints(profiling=True, set_verbosity=levels.append)
    (answer,) = _ask(endpoints, "/debug/flags/v", method="PUT", data=b"7")
    assert answer[:2] == (200, "successfully set klog.logging.verbosity to 7\n")
    (large,) = _ask(endpoints, "/debug/flags/v", method="PUT", data=b"1" * (1 << 17))
    assert large[0] == 413
    assert levels == [7]


def test_a_failing_page_tells_nothing_and_logs_all(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> object:
        raise RuntimeError("the password is 1234")

    (answer,) = _ask(Endpoints(configz=broken), "/configz")
    assert answer[:2] == (
        500,
        "This request caused apiserver to panic. Look in the logs for details.\n",
    )
    assert "the password is 1234" in caplog.text


def test_requests_are_logged_when_that_is_wanted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(V(3), logger="moorage.http.application"):
        _ask(Endpoints(), "/nothing?x=1")
    (told,) = [fields_of(record) for record in caplog.records if record.message == "HTTP"]
    assert told is not None
    assert list(told) == ["verb", "URI", "latency", "userAgent", "audit-ID", "srcIP", "resp"]
    assert (told["verb"], told["URI"], told["userAgent"], told["resp"]) == (
        *("GET", "/nothing?x=1", "test"),
        404,
    )
    assert told["srcIP"].startswith("127.0.0.1:")
    caplog.clear()
    with caplog.at_level(V(2), logger="moorage.http.application"):
        _ask(Endpoints(), "/nothing?x=1")
    assert "HTTP" not in caplog.messages


PROFILES = Endpoints(profiling=True)


def test_stacks_of_threads_and_tasks_are_shown() -> None:
    grouped, each, threads = _ask(
        PROFILES,
        *("/debug/pprof/goroutine?debug=1", "/debug/pprof/goroutine?debug=2"),
        "/debug/pprof/threadcreate",
    )
    assert grouped[1].startswith("goroutine profile: total ")
    assert "_stacks" in grouped[1]
    assert "task 'serving certificates':" in each[1]
    assert "SecurePort._poll" in each[1]
    assert "'MainThread'" in threads[1]


def test_profiles_of_the_processor_are_collapsed_stacks_and_run_alone() -> None:
    async def scenario() -> None:
        async with open_port(PROFILES) as port:
            path = "/debug/pprof/profile?seconds=1"
            refused, (status, body, _) = sorted(
                await asyncio.gather(port.ask(path), port.ask(path)), key=lambda answer: -answer[0]
            )
            assert refused[:2] == (
                500,
                "Could not enable CPU profiling: cpu profiling already in use\n",
            )
            assert status == 200
            *_, line = [line for line in body.splitlines() if "run_until_complete" in line]
            stack, count = line.rsplit(" ", 1)
            assert int(count) > 0
            frames = [frame.partition(" ")[0] for frame in stack.split(";")]
            assert frames.index("Runner.run") < frames.index("BaseEventLoop.run_until_complete")

    run(scenario())


def test_traces_allocations_and_objects_are_shown() -> None:
    trace, allocations, heap, index, command = _ask(
        PROFILES,
        "/debug/pprof/trace?seconds=0.05",
        "/debug/pprof/allocs?seconds=0.05",
        "/debug/pprof/heap?gc=1",
        "/debug/pprof/",
        "/debug/pprof/cmdline",
    )
    events = json.loads(trace[1])["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    assert all(event["dur"] > 0 for event in events)
    assert allocations[1].startswith("alloc profile: 0.05 s\nbytes count place\n")
    assert " builtins.dict\n" in heap[1]
    assert "<a href='profile?debug=1'>profile</a>" in index[1]
    assert command[1].split("\0") == sys.orig_argv


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        *(("", 30.0), ("2", 2.0), ("-1", 30.0), ("0", 30.0), ("x", 30.0), ("nan", 30.0)),
        *(("inf", profiling.LONGEST), ("1e9", profiling.LONGEST)),
    ],
)
def test_no_profile_runs_without_end(asked: str, expected: float) -> None:
    assert profiling.duration({"seconds": asked}, 30.0) == expected


async def _raw(port: Port, text: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port.server.port, ssl=client_context()
    )
    writer.write(text)
    try:
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


def test_who_does_not_ask_is_sent_away() -> None:
    limits = ConnectionLimits(first_request_seconds=0.3)

    async def scenario() -> None:
        async with open_port(connections=limits) as port:
            assert await _raw(port, b"GET /healthz HTTP/1.1\r\nHost:") == b""

    run(scenario())


def test_headers_have_a_limit() -> None:
    async def scenario() -> None:
        async with open_port() as port:
            text = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * (1 << 17) + b"\r\n\r\n"
            assert (await _raw(port, text)).startswith(b"HTTP/1.0 400")
            assert (await port.ask("/healthz"))[0] == 200

    run(scenario())


def test_plain_http_gets_no_answer_at_the_secure_port() -> None:
    async def scenario() -> None:
        async with open_port() as port, aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://127.0.0.1:{port.server.port}/healthz")

    run(scenario())


def _slow_page(begun: asyncio.Event, gate: asyncio.Event) -> Sequence[Route]:
    async def slow(_: web.Request) -> web.Response:
        begun.set()
        await gate.wait()
        return web.Response(text="done")

    return [Route("/slow", slow)]


def test_stopping_lets_requests_end_and_takes_no_more() -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()
        async with open_port(Endpoints(extra=_slow_page(begun, gate))) as port:
            asked = asyncio.create_task(port.ask("/slow"))
            await begun.wait()
            stopping = asyncio.create_task(port.server.stop())
            refused = False
            while not refused:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port.server.port)
                    writer.close()
                except (OSError, ValueError):
                    refused = True
            gate.set()
            assert (await asked)[:2] == (200, "done")
            await stopping

    run(scenario())


def test_stopping_does_not_wait_longer_than_the_grace() -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()
        async with open_port(Endpoints(extra=_slow_page(begun, gate))) as port:
            asked = asyncio.create_task(port.ask("/slow"))
            await begun.wait()
            await port.server.stop(grace=0.05)
            with pytest.raises(aiohttp.ClientError):
                await asked

    run(scenario())


def test_a_server_that_never_started_can_be_stopped() -> None:
    async def scenario() -> None:
        made = loopback_port()
        await made.stop()

    run(scenario())
