"""Kubernetes' own end-to-end tests for scheduling pass, here and on the real control plane."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e import kubernetes_tests
from e2e.kubernetes_tests import REAL, UP, UP_GATED, Run

Runs = Mapping[str, Run]
_DOCS = Path(__file__).parents[2] / "docs" / "local-cluster.md"


@pytest.mark.parametrize("name", [UP_GATED, UP, REAL])
def test_upstreams_tests_pass(kubernetes_runs: Runs, name: str) -> None:
    outcomes = kubernetes_runs[name].outcomes()
    assert {test: why for test, why in outcomes.items() if why.status != "passed"} == {}


def test_none_is_left_out(kubernetes_runs: Runs) -> None:
    every = kubernetes_tests.all_tests()
    assert kubernetes_runs[REAL].outcomes().keys() == every
    up, gated = (kubernetes_runs[name].outcomes().keys() for name in (UP, UP_GATED))
    assert up | gated == every


def test_the_docs_count_them_right(kubernetes_runs: Runs) -> None:
    groups = Counter(test.split()[1] for test in kubernetes_runs[REAL].outcomes())
    section = _DOCS.read_text().partition("## Kubernetes' own tests\n")[2].partition("\n## ")[0]
    told = re.findall(r"^\| ([\w-]+)[^|]* \| (\d+) \|", section, re.MULTILINE)
    assert {name: int(count) for name, count in told} == groups
