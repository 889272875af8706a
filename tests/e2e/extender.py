"""A scheduler extender that answers as a scenario tells it to and remembers what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from e2e.client import Json

Answer = Callable[[Json], Any]
"""From the request's JSON to the answer's, or to bytes that need not be JSON."""


class Extender:
    """Answers of each verb; a verb without an answer fails with code 500."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []

    def config(self, **fields: object) -> Json:
        """The entry of the scheduler's configuration that makes it ask this extender."""
        return {"urlPrefix": self.url, "nodeCacheCapable": True, **fields}


@contextmanager
def extender() -> Iterator[Extender]:
    """A running extender on loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    running = Extender(f"http://127.0.0.1:{server.server_port}")
    server.extender = running  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked: Extender = self.server.extender  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.strip("/")
        asked.asked.append(f"{verb} {sorted(body)}")
        answer = asked.answers.get(verb)
        if answer is None:
            self.send_response(500)
            payload = b""
        else:
            self.send_response(200)
            said = answer(body)
            payload = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing: the tests' output is not the place."""
