"""Recorded decisions of kube-scheduler v1.36.4, put to our engine: all of them must agree."""

from pathlib import Path

import pytest

from moorage.simulator.conformance import check_case
from moorage.simulator.golden import GoldenCase, read_lines
from moorage.simulator.world import full_registry

GOLDEN = Path(__file__).parent / "golden"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.jsonl.gz"))
PARTS = 4
"""Each family is cut into so many tests, for the sake of machines with several cores."""

SHOWN = 5


def uses_devices(case: GoldenCase) -> bool:
    """Does any pod of the case use a device? Their plugin comes later."""
    return any(b'"resourceClaims"' in bytes(text) for text in (case.pod, *case.objects))


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_of_a_family_agrees(family: str, part: int) -> None:
    registry = full_registry()
    lines = list(read_lines(GOLDEN / f"{family}.jsonl.gz"))[part::PARTS]
    cases = [case for line in lines if not uses_devices(case := line.decode())]
    found = [d for case in cases for d in check_case(case, registry).disagreements]
    shown = "\n".join(f"{d.case} {d.field}\n  {d.expected}\n  {d.actual}" for d in found[:SHOWN])
    assert not found, f"{len(found)} disagreements in {len(cases)} cases, the first:\n{shown}"


def test_the_cases_that_are_left_out_are_few() -> None:
    """A mistake in the rule above would make the tests pass by skipping everything."""
    cases = [line.decode() for path in GOLDEN.glob("*.gz") for line in read_lines(path)]
    left_out = [case.name for case in cases if uses_devices(case)]
    assert len(cases) == 3010
    assert len(left_out) == 55
    assert {name.rpartition("-")[0] for name in left_out} == {"mixed", "profiles"}
