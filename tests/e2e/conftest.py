"""Fixtures of the end-to-end tests; see README.md beside this file."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from e2e import kubernetes_tests
from e2e.background import Background, background
from e2e.binaries import Binaries, find_or_build
from e2e.cluster import ControlPlane, control_plane
from e2e.go_programs import UnavailableError
from e2e.scenarios.gangs import SLOW_SCENARIOS
from e2e.schedulers import PEER, Scheduler, schedulers, subject

_BACKGROUND = ("in_background", "kubernetes_runs")
"""The fixtures that start what takes long; tests that have them look at it last."""
_Programs = TypeVar("_Programs")


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The control plane's programs; without them every test that needs them is skipped."""
    return _built(find_or_build, "no control plane")


def _built(find: Callable[[], _Programs], without: str) -> _Programs:
    try:
        return find()
    except UnavailableError as reason:
        if os.environ.get("MOORAGE_E2E_REQUIRED"):
            raise
        pytest.skip(f"{without}: {reason}")


@pytest.fixture(scope="session")
def server(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running etcd and kube-apiserver for all tests of this process."""
    with control_plane(binaries, tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def scheduler(binaries: Binaries) -> Callable[[str], Scheduler]:
    """The schedulers under comparison, by name."""
    known = schedulers(binaries)
    return lambda name: known[name]


@pytest.fixture(scope="session")
def in_background(
    binaries: Binaries,
    scheduler: Callable[[str], Scheduler],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Background]:
    """The slow scenarios at work with both schedulers, each on a control plane of its own."""
    roles = {"peer": scheduler(PEER), "subject": scheduler(subject())}
    with background(SLOW_SCENARIOS, roles, binaries, tmp_path_factory.mktemp) as started:
        yield started


@pytest.fixture(scope="session")
def kubernetes_runs(
    binaries: Binaries,
    scheduler: Callable[[str], Scheduler],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, kubernetes_tests.Run]]:
    """Kubernetes' own tests at work, each run on a cluster of its own."""
    program = _built(kubernetes_tests.program, "Kubernetes' own tests cannot be built")
    make_folder = tmp_path_factory.mktemp
    with kubernetes_tests.runs(program, binaries, scheduler(subject()), make_folder) as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def early_start(request: pytest.FixtureRequest) -> None:
    """Start what runs in the background before the first test."""
    for fixture in _BACKGROUND:
        if any(fixture in _fixtures(item) for item in request.session.items):
            with suppress(pytest.skip.Exception):  # it is for the test itself to say so
                request.getfixturevalue(fixture)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait for the background come last."""
    items.sort(key=_waits)


def _waits(item: pytest.Item) -> bool:
    return not _fixtures(item).isdisjoint(_BACKGROUND)


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def log_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tell where the logs are when a test fails."""
    yield
    if "server" in request.fixturenames:
        folder: Path = request.getfixturevalue("server").folder
        request.node.add_report_section("teardown", "logs", str(folder))
