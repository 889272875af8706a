"""A way to run commands in process."""

from pathlib import Path

import pytest

from cli.running import Finished, Run, Write
from moorage.cli.main import main


@pytest.fixture(autouse=True)
def wide_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are cut to COLUMNS, which a terminal or the test runner may have set."""
    monkeypatch.delenv("COLUMNS", raising=False)


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
