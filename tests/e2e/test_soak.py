"""The soak of `make soak`, short: whole processes under churn and faults."""

import asyncio
from pathlib import Path

from soak.run import Options, run


def test_a_short_soak_loses_nothing_and_stays_within_its_memory(tmp_path: Path) -> None:
    options = Options(seconds=45.0, rate=10.0, folder=tmp_path / "soak")
    assert asyncio.run(run(options)) == 0
    assert (tmp_path / "soak" / "memory.svg").exists()
    assert (tmp_path / "soak" / "memory.csv").read_text().startswith("second,pods,apiserver MiB")
