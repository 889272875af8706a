"""An embedded API server in a thread of its own, and a way to run commands in process."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.running import Finished, Run, Write
from moorage.apiserver.server import ApiServer
from moorage.cli.main import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*argv: str) -> Finished:
        try:
            code = main(argv)
        except SystemExit as stop:  # how argparse ends
            code = int(stop.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Finished(code, out, err)

    return run_command


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_file(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write_file


@pytest.fixture
def server() -> Iterator[ApiServer]:
    """It serves from another thread, as commands have event loops of their own."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    made = ApiServer()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(made.start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(made.stop())
        loop.close()

    thread = threading.Thread(target=serve)
    thread.start()
    assert ready.wait(10)
    yield made
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    assert not thread.is_alive()
