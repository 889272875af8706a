"""The example that docs/plugins.md begins with is complete, and prints what it says."""

import re
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from free_memory import FreeMemory
from moorage.cli.main import main
from moorage.framework import registry
from moorage.framework.plugin import SingleRowMixin
from moorage.testing import PluginCheckError, check_plugin, make_pod

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "plugins.md").read_text()
FILES = dict(re.findall(r"^`([\w.]+)`[^\n]*:\n\n```\w+\n(.*?)^```", TEXT, re.M | re.S))


def test_the_plugin_of_the_documentation_is_the_one_that_is_tested() -> None:
    assert FILES["one_per_team.py"] == (ROOT / "examples/plugins/one_per_team.py").read_text()


def test_the_example_prints_what_the_documentation_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one_per_team.py", "scheduler.yaml", "cluster.yaml"):
        (tmp_path / name).write_text(FILES[name])
    monkeypatch.chdir(tmp_path)
    commands, _, shown = TEXT.partition("```console\n")[2].partition("```")[0].partition("yaml\nN")
    command = commands.removeprefix("$ moorage ") + "yaml"
    assert main(command.split()) == 0
    assert capsys.readouterr().out.rstrip() == f"N{shown}".rstrip()

    offered = tomllib.loads(FILES["pyproject.toml"])["project"]["entry-points"]["moorage.plugins"]
    points = [EntryPoint(name, where, "moorage.plugins") for name, where in offered.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert main(command.replace("--plugin one_per_team.py", "").split()) == 0
    assert capsys.readouterr().out.rstrip() == f"N{shown}".rstrip()


def test_the_mixin_of_the_documentation_answers_as_the_example_does() -> None:
    shown = next(part for part in TEXT.split("```") if "def score_row" in part)
    method = "def score_row" + shown.partition("def score_row")[2]
    assert "class FreeMemory(ScorePlugin[None], SingleRowMixin):" in shown
    namespace: dict[str, object] = {"FreeMemory": FreeMemory, "SingleRowMixin": SingleRowMixin}
    exec(f"class Faster(FreeMemory, SingleRowMixin):\n    {method}", namespace)
    faster, pods = namespace["Faster"], [make_pod("large", memory="3Gi")]
    assert isinstance(faster, type)
    check_plugin(faster, pods=pods)
    faster.score_row = lambda *_: 0  # type: ignore[attr-defined]
    with pytest.raises(PluginCheckError, match="score_row"):
        check_plugin(faster, pods=pods)
