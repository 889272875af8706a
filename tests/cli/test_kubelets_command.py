"""`moorage kubelets`: what it refuses, and that it works until it is told to stop."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from apiserver.serving import PODS, served
from cli.running import Run, Write
from cli.test_servers import ENVIRONMENT
from moorage.apiserver import ApiServer

_KUBECONFIG = """apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
"""


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "the following arguments are required: --kubeconfig"),
        (["--kubeconfig", "there-is-none"], 1, "there-is-none: no such file or directory"),
        (["--kubeconfig", "KC", "--nodes", "0"], 2, "expected a whole number >= 1, got '0'"),
        (["--kubeconfig", "KC", "--shape", "cpu=rum"], 1, "'rum' is not an amount of cpu"),
        (
            ["--kubeconfig", "KC", "--manage-nodes-with-label-selector", "pool"],
            2,
            "expected KEY=VALUE,KEY=VALUE, got 'pool'",
        ),
        (["--kubeconfig", "KC"], 1, "the API server http://127.0.0.1:1 cannot be reached"),
    ],
)
def test_what_is_wrong_is_said(
    run: Run, write: Write, arguments: list[str], code: int, sentence: str
) -> None:
    path = write("kc", _KUBECONFIG)
    done = run("kubelets", *(path if word == "KC" else word for word in arguments))
    assert done.code == code
    assert sentence in done.err


def test_it_makes_nodes_and_runs_their_pods_until_it_is_told_to_stop(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kc"
    with served(ApiServer) as (serving, api):
        serving.server.write_kubeconfig(kubeconfig)
        flags = ["--kubeconfig", str(kubeconfig), "--nodes", "2", "--shape", "cpu=3"]
        command = [sys.executable, "-m", "moorage", "kubelets", *flags]
        with (
            subprocess.Popen(command, env=ENVIRONMENT) as process,
            api.watch(f"{PODS}?watch=1") as watch,
        ):
            api.create_node("of-nobody")
            api.create_pod("waits", nodeName="of-nobody")
            api.create_pod("runs", nodeName="node-1")
            try:
                running = watch.until(lambda _, obj: obj["status"].get("phase") == "Running")
            finally:
                process.send_signal(signal.SIGINT)
            assert running["metadata"]["name"] == "runs"
            assert process.wait(60) == 0
        assert api.get(f"{PODS}/waits").body["status"]["phase"] == "Pending"
        assert api.get("/api/v1/nodes/node-1").body["status"]["capacity"]["cpu"] == "3"
