"""deploy/ on a real API server: kubectl and Helm at work, and Moorage with the rights given there.

The scheduler runs outside the cluster, but with the token and the rights that the manifests give
it; what it asks for is read from the API server's audit log.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from deploy.manifests import CHART, KUSTOMIZE, Json, Right
from e2e.cluster import ControlPlane, empty
from e2e.schedulers import MOORAGE, Scheduler
from e2e.trial import Trial
from moorage.controlplane.processes import ChildProcess
from moorage.version import KUBERNETES_VERSION

NAMESPACE = "kube-system"
NAME = "moorage-scheduler"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
BASE = KUSTOMIZE / "base"


class Kubectl(NamedTuple):
    """kubectl as the administrator."""

    program: Path
    kubeconfig: Path

    def __call__(self, *words: str, given: str | None = None) -> str:
        run = self.tried(*words, given=given)
        assert run.returncode == 0, f"kubectl {' '.join(words)}: {run.stderr}"
        return run.stdout

    def tried(self, *words: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it; it may fail."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *words]
        return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60)

    def built(self, folder: Path) -> str:
        """What kustomize makes of a folder."""
        return self("kustomize", str(folder))

    def dry_run(self, manifest: str) -> set[tuple[str, str]]:
        """Have the API server check objects without keeping them; their kinds and names."""
        applied = self("apply", "--dry-run=server", "-o", "json", "-f", "-", given=manifest)
        answer = json.loads(applied)
        items = answer["items"] if answer["kind"] == "List" else [answer]
        return {(item["kind"], item["metadata"]["name"]) for item in items}


class Helm(NamedTuple):
    """Helm without a cluster."""

    program: Path

    def template(
        self, release: str, namespace: str, values: Mapping[str, Any] | None = None
    ) -> str:
        """What the chart renders to."""
        run = self.tried(release, namespace, values or {})
        assert run.returncode == 0, run.stderr
        return run.stdout

    def tried(
        self, release: str, namespace: str, values: Mapping[str, Any]
    ) -> subprocess.CompletedProcess[str]:
        """Render the chart; the values may be wrong."""
        words = ["template", release, str(CHART), f"--namespace={namespace}", "--values=-"]
        return subprocess.run(
            [str(self.program), *words, f"--kube-version={KUBERNETES_VERSION}"],
            input=yaml.safe_dump(dict(values)),
            capture_output=True,
            text=True,
            timeout=60,
        )


class Deployed(NamedTuple):
    """Moorage at work under the ServiceAccount of deploy/rbac."""

    server: ControlPlane
    process: ChildProcess
    port: int

    def asked(self) -> Iterator[tuple[Right, bool]]:
        """What it has asked the API server for, and whether that was allowed."""
        for line in (self.server.folder / "audit.log").read_text().splitlines():
            entry = json.loads(line) if USER in line else {}
            what = entry.get("objectRef", {})
            if "resource" in what and entry["user"]["username"] == USER:
                parts = [what["resource"], what.get("subresource", "")]
                path = "/".join(part for part in parts if part)
                right = Right(what.get("apiGroup", ""), path, entry["verb"])
                yield right, "forbidden" not in entry["responseStatus"].get("message", "")

    def refused(self) -> list[Right]:
        """What it was not allowed to do."""
        return [right for right, allowed in self.asked() if not allowed]


class RefusedError(Exception):
    """The API server has not allowed the scheduler something."""


class SecondScheduler(Trial):
    """A trial whose pods ask for the second scheduler, which runs already."""

    def __init__(self, deployed: Deployed, name: str) -> None:
        super().__init__(deployed.server, Scheduler(MOORAGE, ()), name)
        self._deployed = deployed
        self._before = len(deployed.refused())

    def start(self, config: Json | None = None, gates: str = "", flags: Sequence[str] = ()) -> None:
        """It has been started."""

    def add_pod(self, name: str, **fields: Any) -> Json:
        """Create a pod for it."""
        return super().add_pod(name, schedulerName=NAME, **fields)

    def refused_rights(self) -> list[Right]:
        """What the scheduler was not allowed to do since the trial began."""
        return self._deployed.refused()[self._before :]

    def pod(self, name: str) -> Json:
        """A pod as it is now; whoever waits for it waits no longer than to the first refusal."""
        self._deployed.process.check()
        if self.refused_rights():
            raise RefusedError
        return super().pod(name)


@contextmanager
def stage(deployed: Deployed, name: str) -> Iterator[SecondScheduler]:
    """An emptied cluster with a namespace for a scenario."""
    trial = SecondScheduler(deployed, name)
    try:
        trial.api.create(api_object("v1", "Namespace", name))
        yield trial
    finally:
        empty(trial.api)
        trial.api.close()


def by_name(manifest: str) -> dict[tuple[str, str, str], Json]:
    """Objects by kind, namespace and name."""
    items = [item for item in yaml.safe_load_all(manifest) if item]
    return {
        (i["kind"], i["metadata"].get("namespace", ""), i["metadata"]["name"]): i for i in items
    }


def api_object(version: str, kind: str, name: str, **metadata: Any) -> Json:
    """An object without a spec."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}
