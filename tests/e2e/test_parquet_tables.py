"""Tables of simulations as Parquet, read by pyarrow, which is no need of other tests."""

from pathlib import Path

import pyarrow.parquet

from moorage.cli.main import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep" / "harbour.yaml"


def test_a_row_for_each_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    assert main(["simulate", str(EXAMPLE), "--runs", str(path)]) == 0
    table = pyarrow.parquet.read_table(path)
    assert table["seed"].to_pylist() == list(range(1, 1 + table.num_rows))
    assert min(table["pods.placed"].to_pylist()) > 0
    assert table["allocation.cpu.peak"].type == "double"
