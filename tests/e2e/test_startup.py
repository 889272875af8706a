"""Starts that cannot work: Moorage ends, or goes on trying, exactly as kube-scheduler does."""

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.client import Access
from e2e.cluster import ControlPlane, write_kubeconfig
from e2e.schedulers import PEER, Scheduler, subject
from moorage.controlplane.processes import ChildProcess, free_port

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


# ---- in the same words ----

_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_SERVING = "--secure-port=PORT"
_FILES = {
    "bad.crt": "nonsense\n",
    "broken.yaml": f"{_HEAD}profiles: a: b\n",
    "unknown.yaml": f"{_HEAD}profile: []\n",
    "invalid.yaml": f"{_HEAD}percentageOfNodesToScore: 101\nparallelism: -1\n",
    "plugin.yaml": f"{_HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: Nowhere}}]}}}}}}]\n"
    "clientConnection: {kubeconfig: KUBECONFIG}\n",
    "args.yaml": f"{_HEAD}profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: "
    "{scoringStrategy: {type: Nonsense}}}]}]\n",
    "lease.yaml": f"{_HEAD}leaderElection: {{leaseDuration: 1s}}\n",
}
_REFUSED = {
    "unknown flag": ["--nonsense"],
    "unknown short flag": ["-x"],
    "an argument": ["nonsense"],
    "no number": ["--kube-api-qps=x"],
    "no duration": ["--leader-elect-lease-duration=x"],
    "no boolean": ["--leader-elect=perhaps"],
    "port out of range": ["--secure-port=70000"],
    "unknown gate": ["--feature-gates=Nonsense=true"],
    "a gate without the one it needs": ["--feature-gates=TopologyAwareWorkloadScheduling=true"],
    "unknown log format": ["--logging-format=xml"],
    "a version too old": ["--emulated-version=1.20"],
    "hidden metrics of long ago": ["--show-hidden-metrics-for-version=1.20"],
    "no such configuration": ["--config=missing.yaml"],
    "broken configuration": ["--config=broken.yaml"],
    "unknown field": ["--config=unknown.yaml"],
    "invalid values": ["--config=invalid.yaml"],
    "invalid plugin arguments": ["--config=args.yaml"],
    "unknown plugin": ["--config=plugin.yaml"],
    "a lease too short": ["--config=lease.yaml", "--leader-elect=true"],
    "a lease too short by flag": ["--leader-elect=true", "--leader-elect-lease-duration=1s"],
    "nowhere to write to": ["--write-config-to=/nonexistent/folder/file"],
    "no such certificate": [_SERVING, "--tls-cert-file=no.crt", "--tls-private-key-file=no.key"],
    "bad certificate": [_SERVING, "--tls-cert-file=bad.crt", "--tls-private-key-file=bad.crt"],
    "certificate without a key": [_SERVING, "--tls-cert-file=bad.crt"],
    "no such client authority": [_SERVING, "--client-ca-file=no.crt"],
    "bad client authority": [_SERVING, "--client-ca-file=bad.crt"],
    "unknown TLS version": [_SERVING, "--tls-min-version=VersionTLS99"],
    "unknown cipher": [_SERVING, "--tls-cipher-suites=NONSENSE"],
    "no such authentication kubeconfig": [_SERVING, "--authentication-kubeconfig=missing"],
    "no such authorization kubeconfig": [_SERVING, "--authorization-kubeconfig=missing"],
}


@pytest.mark.parametrize("flags", _REFUSED.values(), ids=[*_REFUSED])
def test_bad_input_is_refused_in_kube_schedulers_words(
    flags: list[str],
    server: ControlPlane,
    scheduler: Callable[[str], Scheduler],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kubeconfig = str(server.scheduler_kubeconfig)
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text.replace("KUBECONFIG", kubeconfig))
    monkeypatch.chdir(tmp_path)
    given = [flag.replace("PORT", str(free_port())) for flag in flags]
    words = ["--leader-elect=false", "--secure-port=0", f"--kubeconfig={kubeconfig}", *given]
    both = [scheduler(who).run(words, tmp_path / f"{who}.log") for who in (PEER, subject())]
    theirs, ours = [_ended(process) for process in both]
    assert ours == theirs
    assert theirs[0] == 1
    assert theirs[1]


def _ended(process: ChildProcess) -> tuple[int, str]:
    """The exit code, and what was said last without the name of the file, which Moorage adds."""
    try:
        code = process.ended(60)
    finally:
        process.kill()
    said = [line for line in process.log.read_text().splitlines() if line[:1] not in "IW"]
    assert "Traceback" not in said
    last = re.sub(r"^E\d+ [\d:.]+ +\d+ \S+\] ", "", said[-1])
    return code, re.sub(r'err="[a-z]+\.yaml: ', 'err="', last)
