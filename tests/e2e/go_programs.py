"""Programs built from a Go module of ours, once, into a cache outside the repository.

The control plane, Helm and the oracle are such modules. Several processes may ask at once; one
builds. Go's absence is an `UnavailableError` with a sentence, for the tests that are then skipped.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from moorage.version import KUBERNETES_VERSION

# A build outside upstream's own scripts calls itself v0.0.0-master without these.
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class UnavailableError(Exception):
    """Programs can be neither found nor built here; the text says why and what would help."""


class GoPrograms(NamedTuple):
    """What is built together, and what it is built from."""

    name: str
    """What the folder in the cache begins with."""
    module: Path
    packages: Mapping[str, str]
    """Of each program its main package."""
    link_flags: Sequence[str] = ("-s", "-w")
    instead: str = ""
    """What would do without Go, for the sentence that says it is missing."""

    def built(self) -> Path:
        """The folder with the programs, built first where that is needed."""
        folder = cache() / f"{self.name}-{self._fingerprint()}"
        if not folder.is_dir():
            self._check_go()
            folder.parent.mkdir(parents=True, exist_ok=True)
            with _locked(folder.with_name(f"{folder.name}.lock")):
                if not folder.is_dir():
                    self._build(folder)
        return folder

    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for file in (self.module / "go.mod", self.module / "go.sum", *self._sources()):
            digest.update(file.read_bytes())
        digest.update(" ".join(self.link_flags).encode())
        return digest.hexdigest()[:12]

    def _sources(self) -> list[Path]:
        return sorted(self.module.glob("*.go"))

    def _check_go(self) -> None:
        wanted = re.search(r"^go (\d+)\.(\d+)", (self.module / "go.mod").read_text(), re.MULTILINE)
        assert wanted is not None
        if shutil.which("go") is None:
            raise UnavailableError(f"needs Go {wanted[1]}.{wanted[2]} or newer{self.instead}")
        asked = ["go", "version"]
        version = subprocess.run(asked, cwd=self.module, capture_output=True, text=True)
        found = re.search(r"go(\d+)\.(\d+)", version.stdout)
        if found is None or (int(found[1]), int(found[2])) < (int(wanted[1]), int(wanted[2])):
            said = (version.stdout + version.stderr).strip()
            raise UnavailableError(
                f"needs Go {wanted[1]}.{wanted[2]} or newer, but go says: {said}"
            )

    def _build(self, folder: Path) -> None:
        started = time.monotonic()
        say(f"building {', '.join(self.packages)} into {folder} (once, minutes on two cores)")
        asked = ["go", "mod", "download"]
        download = subprocess.run(asked, cwd=self.module, capture_output=True, text=True)
        if download.returncode:
            raise UnavailableError(f"Go modules cannot be fetched: {download.stderr.strip()}")
        partial = folder.with_name(f"{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        flags = ["-p", "2", "-trimpath", "-mod=readonly", "-ldflags", " ".join(self.link_flags)]
        for name, package in self.packages.items():
            say(f"  {name}")
            subprocess.run(
                ["nice", "go", "build", *flags, "-o", str(partial / name), package],
                cwd=self.module,
                env=os.environ | {"CGO_ENABLED": "0"},
                check=True,
            )
        partial.rename(folder)
        say(f"built in {time.monotonic() - started:.0f} s")


def kubernetes_link_flags() -> list[str]:
    """What makes a program say, and believe, that it is of the release."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    values = {
        "gitMajor": major,
        "gitMinor": minor,
        "gitVersion": KUBERNETES_VERSION,
        "gitTreeState": "clean",
    }
    names = [f"-X {package}.{key}={values[key]}" for package in _VERSION_PACKAGES for key in values]
    return ["-s", "-w", *names]


def cache() -> Path:
    """The folder outside the repository that built programs are kept in."""
    named = os.environ.get("MOORAGE_E2E_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def say(text: str) -> None:
    """Tell the user something while the tests wait."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
