"""docs/explain.md: every field is described, every flag is known, and the examples run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from cli.running import Run
from moorage.app.shell_completion import SHELLS, completion_script
from moorage.cli.main import build_parser
from moorage.explain import report
from moorage.explain.listing import DecisionPage

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "explain.md").read_text()
SAMPLE = "src/moorage/samples/harbour.yaml"
STRUCTS = [
    *(kind for kind in vars(report).values() if isinstance(kind, type)),
    DecisionPage,
]


@pytest.mark.parametrize(
    "struct",
    [kind for kind in STRUCTS if issubclass(kind, msgspec.Struct)],
    ids=lambda s: s.__name__,
)
def test_every_field_of_the_schema_is_described(struct: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    fields = {field.encode_name for field in msgspec.structs.fields(struct)}
    assert fields - named == set()


def test_the_version_of_the_schema_is_named() -> None:
    assert f"`{report.SCHEMA}`" in TEXT


def test_every_flag_that_is_named_exists(run: Run) -> None:
    known = "".join(run("explain", what, "--help").out for what in ("pod", "node", "decision"))
    # Of other programs: the scheduler, and kubectl.
    known += " --explain-annotations --raw"
    flags = set(re.findall(r"`?(--[a-z][a-z-]+)", TEXT))
    assert flags
    assert {flag for flag in flags if flag not in known} == set()


def _examples() -> list[str]:
    joined = TEXT.replace("\\\n", " ")
    lines = [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]
    return [line.partition(" | ")[0] for line in lines if SAMPLE in line]


@pytest.mark.parametrize("line", _examples())
def test_examples_on_the_sample_cluster_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(ROOT)
    program, *words = shlex.split(line)
    assert program == "moorage"
    done = run(*words)
    assert done.code in (0, 3), done.err
    assert done.out


def test_the_text_that_is_shown_is_what_is_printed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    printed = {}
    current = ""
    for line in TEXT.splitlines():
        if line.startswith("$ "):
            current = line.removeprefix("$ ") if SAMPLE in line and " | " not in line else ""
        elif line.startswith("```"):
            current = ""
        elif current and line.strip() and line != "...":
            if current not in printed:
                printed[current] = run(*shlex.split(current)[1:]).out.splitlines()
            shown = re.escape(line).replace(re.escape("..."), ".*")
            assert any(re.fullmatch(shown, actual) for actual in printed[current]), line
    assert printed


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_shells_complete_the_command(shell: str) -> None:
    script = completion_script(shell, build_parser())
    for word in ("explain", "decision", "insecure-skip-tls-verify", "no-fixes"):
        assert word in script


def test_a_question_to_a_live_scheduler_does_not_wait_for_columns() -> None:
    """Loading NumPy and the plugins would take longer than the answer."""
    program = (
        "import sys; from moorage.cli.main import main;"
        "code = main(['explain', 'pod', 'a/b', '--server', 'http://127.0.0.1:1']);"
        "sys.exit(9 if 'numpy' in sys.modules else code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 1, done.stderr
