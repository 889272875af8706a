"""The limit of open files: raised, given back to children, and never used up by connections."""

import http.client
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from connections.load import running_load

_WITH_LIMITS = 'ulimit -Sn "$2" && ulimit -Hn "$1" && shift 2 && exec "$@"'


def _command(hard: int, soft: int, *words: str) -> list[str]:
    return ["sh", "-c", _WITH_LIMITS, "sh", str(hard), str(soft), sys.executable, *words]


def _output(hard: int, soft: int, code: str) -> str:
    words = _command(hard, soft, "-c", textwrap.dedent(code))
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def apiserver(folder: Path) -> Iterator[int]:
    """An embedded API server with 128 descriptors; its port. Its log must stay short."""
    data, kubeconfig = f"--data={folder / 'data'}", f"--write-kubeconfig={folder / 'kubeconfig'}"
    words = ("-m", "moorage", "apiserver", "--port=0", data, kubeconfig)
    with subprocess.Popen(_command(128, 128, *words), stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        try:
            line = child.stderr.readline().decode()
            yield int(line.rstrip().rpartition(":")[2])
        finally:
            child.terminate()
            log = child.stderr.read()
    assert len(log) < 10_000, log


def _ask(port: int, method: str, path: str, body: str | None = None) -> int:
    headers = {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request(method, path, body, headers)
        return connection.getresponse().status


def test_a_server_with_few_descriptors_answers_though_hundreds_hold_connections(
    tmp_path: Path,
) -> None:
    with apiserver(tmp_path) as port:
        assert _ask(port, "GET", "/livez") == 200
        with running_load(port, 300, "idle", "plain"):
            body = '{"metadata":{"name":"here"}}'
            assert _ask(port, "POST", "/api/v1/namespaces", body) == 201
            assert _ask(port, "GET", "/api/v1/namespaces/here") == 200
        assert _ask(port, "GET", "/livez") == 200


def test_accept_errors_are_logged_once_a_second_and_end_with_their_cause() -> None:
    told = _output(
        200,
        200,
        """
        import asyncio, logging, os, resource, socket, sys
        from moorage.connections.acceptor import Acceptor
        from moorage.connections.limits import ConnectionLimits

        class Echo(asyncio.Protocol):
            def connection_made(self, transport):
                self.transport = transport
            def data_received(self, data):
                self.transport.write(data)

        async def main():
            listener = socket.create_server(("127.0.0.1", 0))
            listener.setblocking(False)
            acceptor = Acceptor(Echo, ConnectionLimits())
            acceptor.start([listener])
            clients = [socket.socket() for _ in range(60)]
            failed = asyncio.Event()
            acceptor._failures = lambda *args: (lines.append(args), len(lines) > 5 and failed.set())
            lines = []
            highest = os.dup(0)
            os.close(highest)
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest, 200))
            for client in clients:
                client.connect(listener.getsockname())
                client.send(b"x")
            await failed.wait()
            resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
            loop = asyncio.get_running_loop()
            clients[-1].setblocking(False)
            async with asyncio.timeout(30):
                assert await loop.sock_recv(clients[-1], 1) == b"x"
            acceptor.stop()
            acceptor.close()
            print(len(lines), lines[0][1])

        asyncio.run(main())
        """,
    )
    count, reason = told.split(maxsplit=1)
    # One for each attempt, not one for each connection that waits; the throttle is tested apart.
    assert int(count) < 30
    assert reason.strip() == "Too many open files"


def test_the_soft_limit_is_raised_and_children_get_the_old_one() -> None:
    told = _output(
        4096,
        256,
        """
        import resource, subprocess, sys
        from moorage.connections.descriptors import descriptor_limit, raise_limit, restore_limit

        raise_limit()
        print(resource.getrlimit(resource.RLIMIT_NOFILE), descriptor_limit())
        code = "import resource; input(); print(resource.getrlimit(resource.RLIMIT_NOFILE))"
        child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
        restore_limit(child.pid)
        sys.stdout.flush()
        child.communicate(b"now\\n")
        """,
    )
    assert told.splitlines() == ["(4096, 4096) 3840", "(256, 4096)"]


def test_where_nothing_was_raised_children_are_left_alone() -> None:
    told = _output(
        300,
        300,
        """
        import os, resource
        from moorage.connections.descriptors import raise_limit, restore_limit

        raise_limit()
        restore_limit(os.getpid())
        print(resource.getrlimit(resource.RLIMIT_NOFILE))
        """,
    )
    assert told.strip() == "(300, 300)"
