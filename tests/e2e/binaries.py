"""Finds or builds the control plane's binaries: etcd, kube-apiserver and what talks to it.

`KUBEBUILDER_ASSETS` may name a folder that has them; otherwise they are built once from the Go
module in controlplane/. `PYTHONPATH=tests python -m e2e.binaries` does only that, so that the wait
is seen before the tests start.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from e2e.go_programs import GoPrograms, UnavailableError, kubernetes_link_flags, say
from moorage.version import KUBERNETES_VERSION

_PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
_PROGRAMS = GoPrograms(
    f"controlplane-{KUBERNETES_VERSION}",
    Path(__file__).with_name("controlplane"),
    _PACKAGES,
    kubernetes_link_flags(),
    " to build kube-apiserver, or ready binaries in the folder that KUBEBUILDER_ASSETS names",
)


class Binaries(NamedTuple):
    """Where the programs are."""

    etcd: Path
    kube_apiserver: Path
    kube_controller_manager: Path
    kube_scheduler: Path
    kubectl: Path


def find_or_build() -> Binaries:
    """The binaries, built first where that is needed; UnavailableError where it is impossible."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(assets) if assets else _PROGRAMS.built()
    missing = [name for name in _PACKAGES if not os.access(folder / name, os.X_OK)]
    if missing:
        raise UnavailableError(f"{folder} has no {', '.join(missing)}")
    return Binaries(*(folder / name for name in _PACKAGES))


def main() -> int:
    """Build if needed and say where the binaries are; a skip is not a failure."""
    try:
        found = find_or_build()
    except UnavailableError as reason:
        say(f"the end-to-end tests are skipped: {reason}")
    else:
        say(f"control plane {KUBERNETES_VERSION} in {found.etcd.parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
