"""The secure port answers at once, though what answers is loaded with the first visitor only."""

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from moorage.app.options import Options, parse_options
from moorage.app.process import open_port
from moorage.config import DEFAULT_FEATURE_GATES
from moorage.errors import InputError, MoorageError
from moorage.http.endpoints import PING, Endpoints
from moorage.http.secure_port import SecurePort, can_wait
from moorage.metrics.exporter import AllMetrics
from secure_port.port import write_kubeconfig

HOME: Mapping[str, str] = {}
IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def options(*words: str) -> Options:
    found = parse_options([*words, "--kubeconfig=/nowhere"])
    assert isinstance(found, Options)
    return found


def port_of(*words: str) -> tuple[SecurePort, int]:
    """A port on a number that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    found = options("--bind-address=127.0.0.1", f"--secure-port={number}", *words)
    port = open_port(found, AllMetrics(DEFAULT_FEATURE_GATES))
    assert port is not None
    return port, number


async def visit(number: int) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", number, ssl=context)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


def nothing() -> None:
    """Nothing fails."""


def pages() -> Endpoints:
    return Endpoints(healthz=[PING])


@pytest.mark.parametrize(
    ("words", "env", "waits"),
    [
        ([], HOME, True),
        (["--bind-address=127.0.0.1", "--secure-port=7"], HOME, True),
        ([], IN_CLUSTER, False),
        (["--tls-cert-file=/c", "--tls-private-key-file=/k"], HOME, False),
        (["--cert-dir=/c"], HOME, False),
        (["--tls-min-version=VersionTLS13"], HOME, False),
        (["--client-ca-file=/c"], HOME, False),
        (["--requestheader-client-ca-file=/c"], HOME, False),
        (["--authentication-kubeconfig=/k"], HOME, False),
        (["--authorization-kubeconfig=/k"], HOME, False),
    ],
)
def test_whatever_could_be_wrong_is_looked_at_at_once(
    words: list[str], env: Mapping[str, str], waits: bool
) -> None:
    found = options(*words)
    assert can_wait(found.serving, found.authentication, found.authorization, env) is waits


def test_visitors_who_come_together_are_all_answered() -> None:
    async def scenario() -> None:
        port, number = port_of()
        await port.start(pages, nothing)
        try:
            answers = await asyncio.gather(*(visit(number) for _ in range(5)))
            answers.append(await visit(number))
        finally:
            await port.stop()
        assert all(b"200 OK" in answer and answer.endswith(b"ok") for answer in answers)
        with pytest.raises(ConnectionError):
            await visit(number)

    asyncio.run(scenario())


@pytest.mark.parametrize("visited", [False, True])
def test_a_port_can_be_stopped_before_and_while_it_is_made(visited: bool) -> None:
    async def scenario() -> None:
        port, number = port_of()
        await port.start(pages, nothing)
        visitor = asyncio.create_task(visit(number))
        while visited and not port._tasks:
            await asyncio.sleep(0)
        await port.stop()
        visitor.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await visitor
        with pytest.raises(ConnectionError):
            await visit(number)

    asyncio.run(scenario())


def test_port_zero_serves_nothing_and_reads_nothing() -> None:
    closed = options("--secure-port=0", "--tls-cert-file=/nope", "--client-ca-file=/nope")
    assert open_port(closed, AllMetrics(DEFAULT_FEATURE_GATES)) is None


def test_a_port_in_use_is_found_at_once() -> None:
    port, number = port_of()
    try:
        with pytest.raises(InputError, match="address already in use"):
            port_of(f"--secure-port={number}")
    finally:
        port.abandon()


def broken_pages() -> Endpoints:
    raise RuntimeError("no such berth")


def unusable_pages() -> Endpoints:
    raise InputError("no such file")


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (broken_pages, "the secure port cannot be served: RuntimeError: no such berth"),
        (unusable_pages, "the secure port cannot be served: no such file"),
    ],
)
def test_a_port_that_cannot_be_made_tells_so_and_is_given_back(
    broken: Callable[[], Endpoints], message: str
) -> None:
    async def scenario() -> None:
        port, number = port_of()
        failed = asyncio.Event()
        await port.start(broken, failed.set)
        visitor = asyncio.create_task(visit(number))
        try:
            async with asyncio.timeout(60):
                await failed.wait()
            assert isinstance(port.failure, MoorageError)
            assert str(port.failure) == message
        finally:
            await port.stop()
        await asyncio.gather(visitor, return_exceptions=True)
        with pytest.raises(ConnectionError):
            await visit(number)

    asyncio.run(scenario())


@pytest.mark.parametrize("elect", ["true", "false"])
def test_a_process_ends_with_what_keeps_its_port_from_being_served(
    elect: str, tmp_path: Path
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    script = (
        "import sys\n"
        "from moorage.app import pages, run\n"
        "def broken(*args, **named): raise RuntimeError('no such berth')\n"
        "pages.Pages.endpoints = broken\n"
        "sys.exit(run.main(sys.argv[1:]))\n"
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number = probe.getsockname()[1]
    words = ["--bind-address=127.0.0.1", f"--secure-port={number}", f"--leader-elect={elect}"]
    env = {name: value for name, value in os.environ.items() if name not in IN_CLUSTER}
    with subprocess.Popen(
        [sys.executable, "-c", script, f"--kubeconfig={kubeconfig}", "--v=2", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    ) as process:
        try:
            assert process.stderr is not None
            while "Serving securely" not in (line := process.stderr.readline()):
                assert line, "it ended without serving"
            with socket.create_connection(("127.0.0.1", number)):
                _, log = process.communicate(timeout=60)
            assert process.returncode == 1
        finally:
            process.kill()
    last = log.splitlines()[-1]
    assert "command failed" in last
    assert "the secure port cannot be served: RuntimeError: no such berth" in last


def test_a_start_loads_nothing_of_the_server() -> None:
    loaded = "print(any(name in sys.modules for name in ('aiohttp', 'cryptography')))"
    script = f"import sys, moorage.app.run, moorage.app.process; {loaded}"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
