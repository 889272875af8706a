"""The commands as programs: versions, help, pipes and interrupts."""

import json
import os
import signal
import subprocess
import sys
from importlib.resources import files
from typing import Any

import pytest

from cli.running import NODE, POD, Run, Write
from moorage.cli import scheduler
from moorage.version import __version__

# The tests also run from a tree that is not installed.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(files("moorage") / "..")}
SAMPLE = str(files("moorage") / "samples" / "harbour.yaml")


def test_the_version_names_both_versions(run: Run) -> None:
    assert run("--version").out == f"moorage {__version__} (kube-scheduler v1.37.1)\n"


@pytest.mark.parametrize("argv", [(), ("schedule",), ("conformance",), ("bench", "engine")])
def test_help_has_examples(run: Run, argv: tuple[str, ...]) -> None:
    done = run(*argv, "--help")
    assert done.code == 0
    assert "examples:" in done.out


def test_no_command_and_unknown_commands_are_wrong_usage(run: Run) -> None:
    assert run().code == 2
    assert run("sail").code == 2


def test_the_package_runs_as_a_module(write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD}")
    command = [sys.executable, "-m", "moorage", "schedule", "-f", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 placed" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = [sys.executable, "-m", "moorage", "schedule", "-f", SAMPLE, "-o", "json"]
    # A pipe without a reader: the first flush fails.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def in_a_shell(words: str, unbuffered: str = "", **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a command whose words may redirect its streams."""
    return subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m moorage {words}"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered},
        **given,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (f"schedule -f {SAMPLE} > /dev/full", "standard output cannot be written: No space left"),
        (f"explain node x -f {SAMPLE} -h > /dev/full", "standard output cannot be written: No "),
        (f"schedule -f {SAMPLE} >&-", "standard output is closed: "),
        (f"explain node east-gpu -f {SAMPLE} >&-", "standard output is closed: "),
        ("schedule -f - <&-", "standard input is closed"),
        ("explain pod ship -f - <&-", "standard input is closed"),
        ("config view - <&-", "standard input is closed"),
    ],
)
def test_streams_that_cannot_be_used_are_one_sentence(words: str, said: str) -> None:
    done = in_a_shell(words)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith(f"moorage: error: {said}")


def test_a_full_disk_is_one_sentence_also_where_nothing_is_buffered() -> None:
    done = in_a_shell(f"schedule -f {SAMPLE} > /dev/full", unbuffered="1")
    said = "moorage: error: standard output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_complaints_do_not_get_into_the_output(write: Write) -> None:
    path = write("c.yaml", f"{NODE}---\n{POD}---\napiVersion: v1\nkind: Secret\n")
    done = in_a_shell(f"schedule -f {path} -o json 2>&-", stdout=subprocess.PIPE)
    assert done.returncode == 0
    assert json.loads(done.stdout)


def test_another_file_that_fails_is_not_taken_for_the_output(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("moorage.cli.schedule.load_manifests", failing)
    with pytest.raises(OSError, match="Input/output error"):
        run("schedule", "-f", SAMPLE)


def test_an_interrupt_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moorage.cli.schedule.load_manifests", interrupted)
    done = run("schedule", "-f", SAMPLE)
    assert done == (128 + signal.SIGINT, "", "")


def test_the_scheduler_binary_knows_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert scheduler.main(["--version"]) == 0
    assert capsys.readouterr().out == "Kubernetes v1.37.1\n"


def test_the_scheduler_binary_ends_with_1_on_a_wrong_flag(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert scheduler.main(["--sail"]) == 1
    assert capsys.readouterr().err.endswith("Error: unknown flag: --sail\n")


def test_the_scheduler_binary_says_that_it_has_no_configuration(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_PORT", raising=False)
    assert scheduler.main(["--leader-elect=false", "--secure-port=0"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    failed = [line for line in err.splitlines() if '"command failed" err="' in line]
    assert len(failed) == 1
    assert "no configuration has been provided" in failed[0]
    assert "Traceback" not in err


def test_an_interrupted_scheduler_ends_quietly(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moorage.app.process.complete", interrupted)
    assert run("scheduler").code == 128 + signal.SIGINT
