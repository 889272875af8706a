"""Completion scripts; bash is asked what it would offer."""

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from moorage.app.shell_completion import completion_script, scheduler_options
from moorage.cli import completion
from moorage.cli.main import build_parser

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")

_ASK = """\
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 ))
function=$(complete -p "$1" | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "completion.bash"
    path.write_text(completion_script("bash", build_parser()))
    return path


def offered(script: Path, *words: str) -> list[str]:
    done = subprocess.run(
        ["bash", "-c", _ASK, "bash", str(script), *words],
        capture_output=True,
        text=True,
        cwd=script.parent,
        check=True,
    )
    assert done.stderr == ""
    return sorted(done.stdout.split())


@needs_bash
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("moorage", "sched"), ["schedule", "scheduler"]),
        (("moorage", "bench", ""), ["api", "engine", "perf"]),
        (("moorage", "scheduler", "--leader-elect-re"), None),
        (("moorage-scheduler", "--vm"), ["--vmodule"]),
        (("moorage-scheduler", "--logging-format", "="), ["json", "text"]),
        (("moorage-scheduler", "--logging-format", "=", "j"), ["json"]),
        (("moorage-scheduler", "--logging-format", "t"), ["text"]),
        (("moorage-scheduler", "--master", ""), []),
        (("moorage-scheduler", ""), []),
        (("moorage", "bench", "engine", "--workload", "ba"), ["basic"]),
        (("moorage", "schedule", "--expl"), ["--explain"]),
    ],
)
def test_bash_offers_what_may_follow(
    words: tuple[str, ...], expected: list[str] | None, script: Path
) -> None:
    if expected is None:
        expected = [
            "--leader-elect-renew-deadline",
            "--leader-elect-resource-lock",
            "--leader-elect-resource-name",
            "--leader-elect-resource-namespace",
            "--leader-elect-retry-period",
        ]
    assert offered(script, *words) == expected


@needs_bash
@pytest.mark.parametrize(
    "words",
    [
        ("moorage-scheduler", "--config", ""),
        ("moorage-scheduler", "--config", "="),
        ("moorage", "scheduler", "-v=2", "--config", "="),
        ("moorage", "schedule", "--config", ""),
    ],
)
def test_cli_022_a_configuration_is_a_yaml_or_json_file(
    words: tuple[str, ...], script: Path
) -> None:
    for name in ("a.yaml", "b.yml", "c.json", "d.txt"):
        (script.parent / name).touch()
    (script.parent / "sub").mkdir()
    assert offered(script, *words) == ["a.yaml", "b.yml", "c.json", "sub"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_flag_of_the_scheduler_is_in_every_script(shell: str) -> None:
    script = completion_script(shell, build_parser())
    assert "moorage-scheduler" in script
    assert not re.search(r"@\w+@", script)
    for option in scheduler_options():
        long = option.names[-1]
        assert (f" -l {long[2:]} " if shell == "fish" else long) in script


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser(prog="moorage")
    commands = parser.add_subparsers()
    completion.add_parser(commands, lambda: parser)
    args = parser.parse_args(["completion", "bash"])
    assert args.run(args) == 0
    out = capsys.readouterr().out
    assert out == completion_script("bash", parser)
    assert 'words="bash fish zsh"' in out
