"""The scenarios of examples/ can be played, and docs/simulate.md shows one as it is."""

import re
import shutil
from pathlib import Path

from moorage.scenarios.runs import run_scenario
from moorage.scenarios.scenario_file import ScenarioFile

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "examples" / "scenarios"


def shortened(folder: Path, name: str, **changes: str) -> ScenarioFile:
    """An example, played once and for a shorter time."""
    shutil.copytree(SCENARIOS, folder, dirs_exist_ok=True)
    text = re.sub(r"count: \d+", "count: 1", (folder / name).read_text())
    for field, value in changes.items():
        text = re.sub(rf"\b{field}: \w+", f"{field}: {value}", text)
    (folder / name).write_text(text)
    return ScenarioFile(folder / name)


def test_the_documentation_shows_the_example() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/simulate.md").read_text(), re.DOTALL)
    assert shown[0] == (SCENARIOS / "scenario.yaml").read_text()


def test_the_example_is_played_with_both_schedulers(tmp_path: Path) -> None:
    file = shortened(tmp_path, "scenario.yaml", until="20m")
    spread, packed = run_scenario(file)["schedulers"]
    assert (
        spread["summary"]["pods.pending"]["mean"] == packed["summary"]["pods.pending"]["mean"] == 0
    )
    assert spread["summary"]["imbalance.cpu"]["mean"] < packed["summary"]["imbalance.cpu"]["mean"]


def test_the_study_of_autoscaling_is_played_with_each_strategy(tmp_path: Path) -> None:
    file = shortened(tmp_path, "autoscaling/scenario.yaml", until="30m", after="30m")
    schedulers = run_scenario(file)["schedulers"]
    assert [one["name"] for one in schedulers] == [
        "LeastAllocated",
        "MostAllocated",
        "RequestedToCapacityRatio",
    ]
    assert all(one["summary"]["cost"]["mean"] > 0 for one in schedulers)
