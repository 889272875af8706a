"""Finds or builds the control plane's binaries: etcd, kube-apiserver, kube-scheduler and kubectl.

`KUBEBUILDER_ASSETS` may name a folder that has them; otherwise they are built once from the Go
module in controlplane/ and kept in a cache outside the repository. `python tests/e2e/binaries.py`
does only that, so that the wait is seen before the tests start.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

KUBERNETES_VERSION = "v1.36.4"
_MODULE = Path(__file__).with_name("controlplane")
_MAINS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
# A build outside upstream's own scripts calls itself v0.0.0-master without these.
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class UnavailableError(Exception):
    """The binaries can be neither found nor built here; the text says why and what would help."""


class Binaries(NamedTuple):
    """Where the four programs are."""

    etcd: Path
    kube_apiserver: Path
    kube_scheduler: Path
    kubectl: Path


def find_or_build() -> Binaries:
    """The binaries, built first where that is needed; UnavailableError where it is impossible."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return _in_folder(Path(assets))
    folder = cache() / f"controlplane-{KUBERNETES_VERSION}-{_fingerprint()}"
    if not folder.is_dir():
        check_go(_MODULE)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _build(folder)
    return _in_folder(folder)


def _in_folder(folder: Path) -> Binaries:
    missing = [name for name in _MAINS if not os.access(folder / name, os.X_OK)]
    if missing:
        raise UnavailableError(f"{folder} has no {', '.join(missing)}")
    return Binaries(*(folder / name for name in _MAINS))


def cache() -> Path:
    """The folder outside the repository that built programs are kept in."""
    named = os.environ.get("MOORAGE_E2E_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage"


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for file in ("go.mod", "go.sum"):
        digest.update((_MODULE / file).read_bytes())
    digest.update(" ".join(_link_flags()).encode())
    return digest.hexdigest()[:12]


def _link_flags() -> list[str]:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {
        "gitMajor": major,
        "gitMinor": minor,
        "gitVersion": KUBERNETES_VERSION,
        "gitTreeState": "clean",
    }
    names = [f"-X {package}.{key}={values[key]}" for package in _VERSION_PACKAGES for key in values]
    return ["-s", "-w", *names]


def check_go(module: Path) -> None:
    """Complain unless the Go that the module asks for is here."""
    wanted = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    assert wanted is not None
    if shutil.which("go") is None:
        raise UnavailableError(
            f"needs Go {wanted[1]}.{wanted[2]} or newer to build kube-apiserver, or ready binaries "
            "in the folder that KUBEBUILDER_ASSETS names"
        )
    version = subprocess.run(["go", "version"], cwd=module, capture_output=True, text=True)
    found = re.search(r"go(\d+)\.(\d+)", version.stdout)
    if found is None or (int(found[1]), int(found[2])) < (int(wanted[1]), int(wanted[2])):
        said = (version.stdout + version.stderr).strip()
        raise UnavailableError(f"needs Go {wanted[1]}.{wanted[2]} or newer, but go says: {said}")


def _build(folder: Path) -> None:
    started = time.monotonic()
    say(f"building the control plane into {folder} (once, some ten minutes on two cores)")
    download = subprocess.run(["go", "mod", "download"], cwd=_MODULE, capture_output=True)
    if download.returncode:
        raise UnavailableError(f"Go modules cannot be fetched: {download.stderr.decode().strip()}")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for name, package in _MAINS.items():
        say(f"  {name}")
        flags = ["-p", "2", "-trimpath", "-mod=readonly", "-ldflags", " ".join(_link_flags())]
        subprocess.run(
            ["nice", "go", "build", *flags, "-o", str(partial / name), package],
            cwd=_MODULE,
            env=os.environ | {"CGO_ENABLED": "0"},
            check=True,
        )
    partial.rename(folder)
    say(f"built in {time.monotonic() - started:.0f} s")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Several test processes may want the build at once; one of them does it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Tell the user something while the tests wait."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


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
