"""Finds or builds the Helm program that renders the chart.

`MOORAGE_E2E_HELM` may name one; otherwise it is built once from the Go module in helm/ and kept in
the cache outside the repository. A `helm` that happens to be on the path is not used: what a chart
renders to depends on the version.
"""

import hashlib
import os
import subprocess
from pathlib import Path

from e2e.binaries import UnavailableError, cache, check_go, locked, say

_MODULE = Path(__file__).with_name("helm")
_MAIN = "helm.sh/helm/v3/cmd/helm"


def find_or_build_helm() -> Path:
    """The program, built first where that is needed; UnavailableError where it is impossible."""
    named = os.environ.get("MOORAGE_E2E_HELM")
    if named:
        if not os.access(named, os.X_OK):
            raise UnavailableError(f"MOORAGE_E2E_HELM names {named}, which is no program")
        return Path(named)
    program = cache() / f"helm-{_fingerprint()}"
    if not program.exists():
        check_go(_MODULE)
        program.parent.mkdir(parents=True, exist_ok=True)
        with locked(program.with_suffix(".lock")):
            if not program.exists():
                _build(program)
    return program


def _fingerprint() -> str:
    parts = [(_MODULE / file).read_bytes() for file in ("go.mod", "go.sum")]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:12]


def _build(program: Path) -> None:
    say(f"building Helm into {program} (once, some minutes on two cores)")
    download = subprocess.run(["go", "mod", "download"], cwd=_MODULE, capture_output=True)
    if download.returncode:
        raise UnavailableError(f"Go modules cannot be fetched: {download.stderr.decode().strip()}")
    partial = program.with_suffix(".partial")
    flags = ["-p", "2", "-trimpath", "-mod=readonly", "-ldflags", "-s -w"]
    subprocess.run(
        ["nice", "go", "build", *flags, "-o", str(partial), _MAIN],
        cwd=_MODULE,
        env=os.environ | {"CGO_ENABLED": "0"},
        check=True,
    )
    partial.rename(program)
