"""Recorded decisions of kube-scheduler, put to our engine: all of them must agree."""

from pathlib import Path

import pytest

from explain.recorded import EVERY_CASE, GOLDEN
from moorage.simulator.conformance import Disagreement, check_case
from moorage.simulator.replay import read_lines
from moorage.simulator.world import full_registry

CORNERS = GOLDEN.parent / "corners"
"""Computed by the same plugins: cases that once disagreed, and variations of the others."""
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz"))
PARTS = 4
"""Each family is cut into so many tests, for the sake of machines with several cores."""

SHOWN = 5


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_of_a_family_agrees(family: str, part: int) -> None:
    registry = full_registry()
    lines = list(read_lines(GOLDEN / f"{family}.jsonl.gz"))[part::PARTS]
    cases = [line.decode() for line in lines]
    agree([d for case in cases for d in check_case(case, registry).disagreements])


@pytest.mark.parametrize("file", sorted(CORNERS.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_corner_cases_agree(file: Path) -> None:
    registry = full_registry()
    cases = [line.decode() for line in read_lines(file)]
    agree([d for case in cases for d in check_case(case, registry).disagreements])


@pytest.mark.parametrize("family", FAMILIES)
def test_cases_agree_without_reuse(family: str) -> None:
    registry = full_registry()
    lines = list(read_lines(GOLDEN / f"{family}.jsonl.gz"))[:: 1 if EVERY_CASE else 10]
    cases = [line.decode() for line in lines]
    agree([d for case in cases for d in check_case(case, registry, reuse=False).disagreements])


def agree(found: list[Disagreement]) -> None:
    shown = "\n".join(f"{d.case} {d.field}\n  {d.expected}\n  {d.actual}" for d in found[:SHOWN])
    assert not found, f"{len(found)} disagreements, the first:\n{shown}"


def test_all_families_are_there() -> None:
    """A file that is missing, or read by half, would make the tests above pass."""
    counts = {family: len(list(read_lines(GOLDEN / f"{family}.jsonl.gz"))) for family in FAMILIES}
    assert len(counts) == 14
    assert sum(counts.values()) == 3585
    assert sum(len(list(read_lines(file))) for file in CORNERS.glob("*.jsonl.gz")) >= 500
