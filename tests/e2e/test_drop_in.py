"""kubeadm's static pod with nothing changed but the program."""

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from e2e.client import Api, wait_for
from e2e.cluster import ControlPlane, empty
from e2e.instance import Instance
from e2e.objects import node, pod
from e2e.schedulers import MOORAGE, Scheduler

_PORT = 10259
_NAMESPACE = "drop-in"


@pytest.fixture
def api(server: ControlPlane) -> Iterator[Api]:
    with closing(Api(server.admin)) as api:
        empty(api)
        api.delete("Lease", "kube-scheduler", "kube-system")
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        yield api
        empty(api)


def test_the_command_line_of_kubeadms_static_pod_works_unchanged(
    server: ControlPlane, api: Api
) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", _PORT)) == 0:
            pytest.skip(f"somebody listens on port {_PORT} already")
    kubeconfig = server.scheduler_kubeconfig
    command = [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=true",
    ]
    program = Scheduler(MOORAGE, (sys.executable, "-m", "moorage.cli.scheduler"))
    process = program.run(command, server.folder / "drop-in.moorage.log")
    try:
        running = Instance(process, server, _PORT)
        # The probes of the same manifest: startup and liveness, then readiness.
        running.wait("life", running.serving)
        running.wait("readiness", running.ready)
        lease = running.wait("a lease", lambda: api.find("Lease", "kube-scheduler", "kube-system"))
        assert lease["spec"]["leaseDurationSeconds"] == 15
        api.create(node("n1"))
        api.create(pod("first") | {"metadata": {"name": "first", "namespace": _NAMESPACE}})
        wait_for(
            "the pod to be bound",
            lambda: api.get("Pod", "first", _NAMESPACE)["spec"].get("nodeName"),
        )
        process.send(signal.SIGTERM)
        assert process.ended() == 0
    finally:
        process.kill()
    assert api.get("Lease", "kube-scheduler", "kube-system")["spec"]["holderIdentity"] == ""
    assert "Traceback" not in running.log()
