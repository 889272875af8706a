"""The example that docs/plugins.md begins with is complete, and prints what it says."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from moorage.cli.main import main
from moorage.framework import registry

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`.*?:\n\n```\w+\n(.*?)^```", TEXT, re.M | re.S))


def test_the_plugin_of_the_documentation_is_the_one_that_is_tested() -> None:
    assert FILES["one_per_team.py"] == (ROOT / "examples/plugins/one_per_team.py").read_text()


def test_the_example_prints_what_the_documentation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offered = tomllib.loads(FILES["pyproject.toml"])["project"]["entry-points"]["moorage.plugins"]
    points = [EntryPoint(name, where, "moorage.plugins") for name, where in offered.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    for name in ("scheduler.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    commands, _, shown = TEXT.partition("```console\n")[2].partition("```")[0].partition("yaml\nN")
    command = commands.splitlines()[-1].removeprefix("$ moorage ") + "yaml"
    assert main(command.split()) == 0
    assert capsys.readouterr().out.rstrip() == f"N{shown}".rstrip()
