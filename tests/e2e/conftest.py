"""Fixtures of the end-to-end tests; see README.md beside this file."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.background import Background, background
from e2e.binaries import Binaries, find_or_build
from e2e.cluster import ControlPlane, control_plane
from e2e.go_programs import UnavailableError
from e2e.scenarios.gangs import SLOW_SCENARIOS
from e2e.schedulers import PEER, Scheduler, schedulers, subject


@pytest.fixture(scope="session")
def binaries() -> Binaries:
    """The control plane's programs; without them every test that needs them is skipped."""
    try:
        return find_or_build()
    except UnavailableError as reason:
        if os.environ.get("MOORAGE_E2E_REQUIRED"):
            raise
        pytest.skip(f"no control plane: {reason}")


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


@pytest.fixture(scope="session", autouse=True)
def early_start(request: pytest.FixtureRequest) -> None:
    """Start what runs in the background before the first test."""
    if any(_waits(item) for item in request.session.items):
        with suppress(pytest.skip.Exception):  # it is for the test itself to say so
            request.getfixturevalue("in_background")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that wait for the background come last."""
    items.sort(key=_waits)


def _waits(item: pytest.Item) -> bool:
    return "in_background" in getattr(item, "fixturenames", ())


@pytest.fixture(autouse=True)
def log_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tell where the logs are when a test fails."""
    yield
    if "server" in request.fixturenames:
        folder: Path = request.getfixturevalue("server").folder
        request.node.add_report_section("teardown", "logs", str(folder))
