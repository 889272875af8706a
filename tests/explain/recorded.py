"""Recorded cases in which no node takes the pod, as many as there is time for."""

import os
from pathlib import Path

from moorage.simulator.replay import GoldenCase, read_lines
from properties.harness import DEEP

GOLDEN = Path(__file__).parent.parent / "parity" / "golden"
EVERY_CASE = DEEP or bool(os.environ.get("MOORAGE_EVERY_CASE"))
"""`make e2e` tries them all."""
_ENOUGH = 40


def hopeless(family: str) -> list[GoldenCase]:
    """All such cases of a family."""
    cases = (line.decode() for line in read_lines(GOLDEN / f"{family}.jsonl.gz"))
    return [case for case in cases if not case.expect["feasible"]]


def some(cases: list[GoldenCase]) -> list[GoldenCase]:
    """All of them, or a few dozen from all over the family."""
    return cases if EVERY_CASE else cases[:: max(1, len(cases) // _ENOUGH)]
