"""From an empty file to a filter in a running cluster, as docs/plugins.md tells it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moorage.cli.main import main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```", TEXT, re.M | re.S))
WALK = TEXT.partition("two minutes after the empty file")[2].partition("## ")[0]
TWO_MINUTES = 120


def commands() -> list[list[str]]:
    return [line.split()[2:] for line in WALK.splitlines() if line.startswith("$ moorage ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("one_per_team.py", "scheduler.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_plugin_passes_the_checks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(commands()[0]) == 0
    assert capsys.readouterr().out == "OnePerTeam: passed all checks\n"


@contextmanager
def running(words: list[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "moorage.cli.main", *words],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def said(process: "subprocess.Popen[str]", text: str) -> str:
    """Read until a line has this text."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"it ended without saying {text!r}")


def test_a_filter_runs_within_two_minutes_and_is_changed_while_it_runs(folder: Path) -> None:
    started = time.monotonic()
    with running(commands()[1]) as process:
        said(process, "Ctrl-C ends it.")
        plugin, first = folder / "one_per_team.py", FILES["one_per_team.py"]
        (changed,) = re.findall(r"`(return self\.occupied [^`]*)`", WALK)
        plugin.write_text(re.sub(r"return self\.occupied .*", changed, first))
        assert plugin.read_text() != first
        assert (
            said(process, "read again")
            == WALK.partition("Ctrl-C ends it.\n")[2].partition("\n")[0] + "\n"
        )
        plugin.write_text(first.replace("def filter_node", "def filter_nothing"))
        refused = said(process, "not reloaded")
        assert re.search(
            r"one_per_team\.py:\d+: class OnePerTeam does not define filter_n", refused
        )
    assert time.monotonic() - started < TWO_MINUTES
