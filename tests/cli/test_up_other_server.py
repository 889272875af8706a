"""`moorage up` on an API server that is not its own: what it refuses, and that it works."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apiserver.serving import PODS, Client, Json, served
from cli.running import Run
from cli.test_servers import ENVIRONMENT
from moorage.apiserver import ApiServer

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--kubeconfig x --control-plane y", "name two API servers: give one of them"),
        ("--kubeconfig x --data d", "--data is for the embedded API server, not for that of"),
        ("--control-plane x --port 5", "--port is for the embedded API server, not for that of"),
        ("--kubeconfig x --write-kubeconfig y", "with --kubeconfig there is one already"),
        ("--kubeconfig there-is-none", "there-is-none: no such file or directory"),
        ("--control-plane there-is-none", "etcd and kube-apiserver were not found (there-is-none)"),
    ],
)
def test_what_cannot_be_is_said(run: Run, flags: str, sentence: str) -> None:
    done = run("up", *flags.split())
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert sentence in done.err


def _lease(seconds_ago: int) -> Json:
    renewed = datetime.fromtimestamp(datetime.now(UTC).timestamp() - seconds_ago, UTC)
    spec = {
        "holderIdentity": "quay_1",
        "leaseDurationSeconds": 15,
        "renewTime": renewed.isoformat(timespec="microseconds").replace("+00:00", "Z"),
    }
    return {"metadata": {"name": "kube-scheduler"}, "spec": spec}


def test_it_does_not_compete_with_a_scheduler(run: Run, tmp_path: Path) -> None:
    with served(ApiServer) as (serving, api):
        kubeconfig = tmp_path / "kc"
        serving.server.write_kubeconfig(kubeconfig)
        assert api.post(_LEASES, _lease(1)).code == 201
        done = run("up", "--kubeconfig", str(kubeconfig), "--once")
        assert done.code == 1
        assert "quay_1 holds the lease kube-system/kube-scheduler" in done.err
        api.delete(f"{_LEASES}/kube-scheduler")
        assert api.post(_LEASES, _lease(60)).code == 201
        assert run("up", "--kubeconfig", str(kubeconfig), "--once").code == 0


def _deployed(api: Client) -> Json:
    labels = {"app": "web"}
    pod = {"containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "web"}, "spec": spec}
    answer = api.post("/apis/apps/v1/namespaces/default/deployments", body)
    assert answer.code == 201, answer.body
    return answer.body


def test_it_works_on_a_server_and_leaves_strange_nodes_alone(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kc"
    with served(ApiServer) as (serving, api):
        serving.server.write_kubeconfig(kubeconfig)
        real = {"metadata": {"name": "real"}, "spec": {"unschedulable": True}}
        assert api.post("/api/v1/nodes", real).code == 201
        api.create_pod("waits", nodeName="real")
        flags = ["--kubeconfig", str(kubeconfig), "--nodes", "2", "--no-page"]
        with (
            subprocess.Popen(
                [sys.executable, "-m", "moorage", "up", *flags], env=ENVIRONMENT
            ) as process,
            api.watch(f"{PODS}?watch=1") as watch,
        ):
            _deployed(api)
            try:
                watch.until(lambda _, obj: obj["status"].get("phase") == "Running")
            finally:
                process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        assert api.get(f"{PODS}/waits").body["status"]["phase"] == "Pending"
        assert "conditions" not in api.get("/api/v1/nodes/real").body.get("status", {})
