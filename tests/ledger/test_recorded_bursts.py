"""Bursts of alike pods in a cluster that changes: what is read back is what was found."""

from collections import Counter
from pathlib import Path

import pytest

from ledger.bursts import Burst
from ledger.recorded import check
from moorage.ledger import Ledger, open_ledger

SEEDS = range(3)


@pytest.fixture(scope="module", params=SEEDS)
def burst(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Burst:
    return _burst(request.param, tmp_path_factory.mktemp("ledger"))


def _burst(seed: int, directory: Path | None = None) -> Burst:
    burst = Burst(seed, Ledger(2**25, directory))
    burst.run(130)
    return burst


def test_every_decision_of_a_burst_reads_back(burst: Burst) -> None:
    for number, told in enumerate(burst.expected, 1):
        check(burst.ledger, number, told)


def test_every_decision_of_a_burst_reads_back_from_disk(burst: Burst) -> None:
    burst.ledger.close()
    assert burst.ledger.directory is not None
    reader = open_ledger(burst.ledger.directory)
    assert (list(reader.problems), len(reader)) == ([], len(burst.expected))
    for number in range(1, len(burst.expected) + 1):
        page = (number % 50, 3)
        expected = burst.ledger.explain(number, top=3, matrix=page)
        assert reader.explain(number, top=3, matrix=page) == expected


def test_the_bursts_have_a_little_of_everything() -> None:
    seen: Counter[object] = Counter()
    for seed in SEEDS:
        for told in _burst(seed).expected:
            way = "short" if told.short else "plain"
            seen[way, bool(told.node)] += 1
            seen[way, "scored"] += bool(told.totals)
            seen[way, "some not feasible"] += bool(told.totals and told.refusals)
            seen[way, "only some scored"] += len(told.totals) < len(told.feasible_names)
            for parts in told.scores.values():
                seen.update((way, plugin) for plugin, (raw, _) in parts.items() if raw)
    wanted = {("short", True), ("plain", True), ("plain", False), ("plain", "only some scored")}
    for way in ("short", "plain"):
        wanted |= {(way, "scored"), (way, "some not feasible")}
        for plugin in ("TaintToleration", "NodeAffinity", "InterPodAffinity", "PodTopologySpread"):
            wanted.add((way, plugin))
    assert {key for key in wanted if seen[key] < 5} == set()
