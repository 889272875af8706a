"""Fixtures of the end-to-end tests; see README.md beside this file."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.binaries import Binaries, UnavailableError, find_or_build
from e2e.cluster import ControlPlane, control_plane
from e2e.schedulers import Scheduler, schedulers


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


@pytest.fixture(autouse=True)
def log_folder(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tell where the logs are when a test fails."""
    yield
    if "server" in request.fixturenames:
        folder: Path = request.getfixturevalue("server").folder
        request.node.add_report_section("teardown", "logs", str(folder))
