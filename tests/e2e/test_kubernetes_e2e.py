"""Kubernetes' own end-to-end tests pass, here and on the real control plane."""

import re
from collections import Counter
from collections.abc import Mapping

import pytest

from e2e.kubernetes_tests import (
    APPS,
    CONFORMANCE,
    REAL,
    SCHEDULING,
    UP,
    UP_GATED,
    WORKLOADS,
    Run,
    all_tests,
    docs,
    out_of_reach,
)

Runs = Mapping[str, Run]


@pytest.mark.parametrize("name", [UP_GATED, WORKLOADS, UP, REAL])
def test_upstreams_tests_pass(kubernetes_runs: Runs, name: str) -> None:
    outcomes = kubernetes_runs[name].outcomes()
    assert outcomes
    assert {test: why for test, why in outcomes.items() if why.status != "passed"} == {}


def test_none_is_left_out(kubernetes_runs: Runs) -> None:
    every = all_tests(SCHEDULING)
    assert kubernetes_runs[REAL].outcomes().keys() == every
    up, gated = (kubernetes_runs[name].outcomes().keys() for name in (UP, UP_GATED))
    assert up | gated == every


def test_the_docs_count_them_right(kubernetes_runs: Runs) -> None:
    groups = Counter(test.split()[1] for test in kubernetes_runs[REAL].outcomes())
    told = re.findall(r"^\| ([\w-]+)[^|]* \| (\d+) \|", docs("Kubernetes' own tests"), re.MULTILINE)
    assert {name: int(count) for name, count in told} == groups


def test_the_docs_name_what_is_out_of_reach(kubernetes_runs: Runs) -> None:
    every = {test for test in all_tests(APPS) if CONFORMANCE in test}
    left = every - kubernetes_runs[WORKLOADS].outcomes().keys()
    assert [name for name in out_of_reach() if not any(name in test for test in left)] == []
    assert [test for test in left if not any(name in test for name in out_of_reach())] == []
