"""The soak of `make soak`, short: whole processes under churn and faults."""

import asyncio
from pathlib import Path

import pytest

from soak.run import Options, run


@pytest.mark.parametrize(("up", "process"), [(False, "apiserver"), (True, "up")])
def test_a_short_soak_loses_nothing_and_stays_within_its_memory(
    tmp_path: Path, up: bool, process: str
) -> None:
    options = Options(seconds=45.0, rate=10.0, folder=tmp_path / "soak", up=up)
    assert asyncio.run(run(options)) == 0
    assert (tmp_path / "soak" / "memory.svg").exists()
    assert (tmp_path / "soak" / "memory.csv").read_text().startswith(f"second,pods,{process} MiB")
