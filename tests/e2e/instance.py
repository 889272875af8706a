"""A scheduler that serves its secure port, and questions to it."""

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from e2e.client import Api, ApiError, Found, Json, wait_for
from e2e.cluster import SCHEDULER, ControlPlane
from e2e.schedulers import Scheduler
from moorage.controlplane.processes import ChildProcess, free_port
from secure_port.port import client_context
from secure_port.recording import KEPT_HEADERS, Answer

# Beside other work a start can take long.
START_SECONDS = 60.0
_ASK_SECONDS = 20.0


class Instance:
    """A running scheduler with a port of its own."""

    def __init__(self, process: ChildProcess, server: ControlPlane, port: int) -> None:
        self.process = process
        self.port = port
        self._reader = server.tokens["reader"]

    def ask(
        self,
        path: str,
        token: str = "",
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: str = "",
        context: ssl.SSLContext | None = None,
    ) -> Answer:
        """Send one request over a connection of its own."""
        sent = {"User-Agent": "test", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context or client_context(), timeout=_ASK_SECONDS
        )
        with closing(connection):
            connection.request(method, path, body.encode() or None, sent)
            found = connection.getresponse()
            kept = {name: found.headers[name] for name in KEPT_HEADERS if name in found.headers}
            return Answer(found.status, kept, found.read().decode())

    def read(self, path: str) -> str:
        """What a page tells those who may read it."""
        answer = self.ask(path, self._reader)
        assert answer.status == 200, answer
        return answer.body

    def read_json(self, path: str) -> Any:
        """What a page of JSON says."""
        return json.loads(self.read(path))

    def samples(self, family: str) -> dict[tuple[str, ...], float]:
        """A family's samples by the values of their labels, in the order of the labels' names."""
        return {
            tuple(sample.labels[key] for key in sorted(sample.labels)): sample.value
            for found in text_string_to_metric_families(self.read("/metrics"))
            for sample in found.samples
            if sample.name == family
        }

    def wait(
        self, what: str, found: Callable[[], Found | None], wait: float = START_SECONDS
    ) -> Found:
        """Wait until something is there, but not for a process that has ended."""

        def checked() -> Found | None:
            self.process.check()
            return found()

        return wait_for(f"{what} by {self.process.name}", checked, wait)

    def serving(self) -> bool:
        """Does it answer?"""
        with suppress(OSError, http.client.HTTPException):
            return self.ask("/livez").status == 200
        return False

    def ready(self) -> bool:
        """Does it say that it is ready?"""
        return self.serving() and self.ask("/readyz").status == 200

    def leads(self) -> bool:
        """Does it say that it is the leader?"""
        return self.samples("leader_election_master_status") == {("kube-scheduler",): 1.0}

    def log(self) -> str:
        """What it has said so far."""
        return self.process.log.read_text()


@contextmanager
def instance(
    scheduler: Scheduler,
    server: ControlPlane,
    label: str,
    *flags: str,
    who: str = SCHEDULER,
    ready: bool = True,
) -> Iterator[Instance]:
    """Start a scheduler with these flags and the token of `who`; kill it if it is still there."""
    kubeconfig, port = server.kubeconfig(who), free_port()
    words = [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--v=2",
        *flags,
    ]
    if not any(flag.startswith(("--config=", "--kubeconfig=")) for flag in flags):
        words.append(f"--kubeconfig={kubeconfig}")
    process = scheduler.run(words, server.folder / f"{label}.{scheduler.name}.log")
    try:
        running = Instance(process, server, port)
        running.wait("readiness", running.ready if ready else running.serving)
        yield running
    finally:
        process.kill()


def let_read(server: ControlPlane) -> None:
    """Give the user `reader` the right to every page of a scheduler."""
    name = "e2e:reader"
    rule = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    group = "rbac.authorization.k8s.io"
    user = {"apiGroup": group, "kind": "User", "name": "reader"}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    bodies: dict[str, Json] = {
        "clusterroles": {"kind": "ClusterRole", "rules": [rule]},
        "clusterrolebindings": {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]},
    }
    for plural, body in bodies.items():
        body |= {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
        with closing(Api(server.admin)) as api:
            try:
                api.call("POST", f"/apis/{group}/v1/{plural}", body)
            except ApiError as failure:
                if failure.code != 409:
                    raise
