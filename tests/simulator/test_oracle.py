"""The oracle as a process: a small program stands in for upstream's plugins."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.errors import InputError
from moorage.model.meta import Json
from moorage.simulator.oracle import Oracle, OracleAnswer

CASE: Json = {"name": "a-1", "config": None, "objects": [], "pod": {"kind": "Pod"}}
HELLO = 'print(\'{"kubernetes": "v1"}\', flush=True)\n'
Start = Callable[[str], Oracle]


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Oracle]:
    def write(text: str, seconds: float = 30.0) -> Oracle:
        path = tmp_path / "oracle"
        path.write_text(f"#!{sys.executable}\nimport json, sys, time\n{text}")
        path.chmod(0o755)
        return Oracle(path, seconds)

    return write


def test_a_case_is_asked_and_answered(program: Start) -> None:
    echo = "for line in sys.stdin: print(json.dumps({'expect': json.loads(line)}), flush=True)"
    with program(HELLO + echo) as oracle:
        assert oracle.kubernetes == "v1"
        answer = oracle.ask(CASE, check=[0])
    assert answer.expect == {"config": None, "objects": [], "pod": {"kind": "Pod"}, "check": [0]}


def test_a_case_that_ends_the_oracle_has_failed_and_the_next_is_answered(program: Start) -> None:
    picky = (
        "if json.loads(input())['check']: sys.exit(3)\nprint('{\"invalid\": \"no\"}', flush=True)"
    )
    with program(HELLO + picky) as oracle:
        assert "gave no answer" in oracle.ask(CASE, check=[1]).failed
        assert oracle.ask(CASE) == OracleAnswer(invalid="no")


def test_a_case_that_takes_too_long_has_failed(program: Callable[..., Oracle]) -> None:
    with program(HELLO + "for line in sys.stdin: pass", seconds=1.0) as oracle:
        assert "1 seconds have passed" in oracle.ask(CASE).failed


@pytest.mark.parametrize("text", ["", "print('hello', flush=True)", "print('{}', flush=True)"])
def test_another_program_is_refused(program: Start, text: str) -> None:
    with pytest.raises(InputError, match="not an oracle"), program(text):
        pass


def test_a_missing_program_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(InputError, match="cannot be started"), Oracle(missing):
        pass
