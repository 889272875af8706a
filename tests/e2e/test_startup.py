"""Starts that cannot work: Moorage ends, or goes on trying, exactly as kube-scheduler does."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.client import Access
from e2e.cluster import ControlPlane, free_port, write_kubeconfig
from e2e.schedulers import PEER, Scheduler, subject

# Long enough for either program to find out that it cannot start.
_PATIENCE_SECONDS = 5.0
_TRIES_ON = None


def _no_file(_: ControlPlane, folder: Path) -> str:
    return f"--kubeconfig={folder / 'missing'}"


def _not_yaml(_: ControlPlane, folder: Path) -> str:
    file = folder / "broken.kubeconfig"
    file.write_text("not: yaml: [")
    return f"--kubeconfig={file}"


def _empty(_: ControlPlane, folder: Path) -> str:
    file = folder / "empty.kubeconfig"
    file.write_text("")
    return f"--kubeconfig={file}"


def _no_server(_: ControlPlane, folder: Path) -> str:
    access = Access(f"http://127.0.0.1:{free_port()}", "token")
    return f"--kubeconfig={write_kubeconfig(folder / 'nobody.kubeconfig', access)}"


def _refused_token(server: ControlPlane, folder: Path) -> str:
    access = server.admin._replace(token="wrong")
    return f"--kubeconfig={write_kubeconfig(folder / 'refused.kubeconfig', access)}"


def _no_config_file(_: ControlPlane, folder: Path) -> str:
    return f"--config={folder / 'missing'}"


def _unknown_flag(*_: object) -> str:
    return "--nonsense"


def _argument(*_: object) -> str:
    return "nonsense"


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        pytest.param(_no_file, 1, id="no-kubeconfig"),
        pytest.param(_not_yaml, 1, id="broken-kubeconfig"),
        pytest.param(_empty, 1, id="empty-kubeconfig"),
        pytest.param(_no_config_file, 1, id="no-configuration"),
        pytest.param(_unknown_flag, 1, id="unknown-flag"),
        pytest.param(_argument, 1, id="argument"),
        pytest.param(_no_server, _TRIES_ON, id="no-server"),
        pytest.param(_refused_token, _TRIES_ON, id="refused-token"),
    ],
)
@pytest.mark.parametrize("who", dict.fromkeys((PEER, subject())))
def test_a_start_that_cannot_work_ends_alike(
    who: str,
    flag: Callable[[ControlPlane, Path], str],
    code: int | None,
    server: ControlPlane,
    scheduler: Callable[[str], Scheduler],
    tmp_path: Path,
) -> None:
    words = ["--leader-elect=false", "--secure-port=0", flag(server, tmp_path)]
    process = scheduler(who).run(words, tmp_path / f"{who}.log")
    try:
        limit = time.monotonic() + _PATIENCE_SECONDS
        while process.running and time.monotonic() < limit:
            time.sleep(0.05)
        ended = not process.running
    finally:
        stopped = process.stop()
    assert (stopped if ended else _TRIES_ON) == code
    said = process.log.read_text()
    assert said
    assert "Traceback" not in said
