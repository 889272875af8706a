"""The fuzzer for a short while: every target, a seed that changes daily."""

import datetime as dt
from pathlib import Path

import pytest

from fuzz.run import main


def test_a_minute_of_hostile_inputs_finds_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = dt.datetime.now(dt.UTC).strftime("%Y%m%d")
    found = main(["--seconds", "60", "--seed", seed, "--cases", str(tmp_path)])
    assert found == 0, capsys.readouterr().out
