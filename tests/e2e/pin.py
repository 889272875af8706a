"""Writes another Kubernetes release into everything that pins one: `python -m e2e.pin v1.37.1`.

That is moorage/version.py and the Go modules of the control plane, its tests and the oracle, whose
`replace` lines name a version of each staging module.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from moorage import version
from moorage.version import KUBERNETES_VERSION

_TESTS = Path(__file__).parents[1]
MODULES = (_TESTS / "e2e" / "controlplane", _TESTS / "e2e" / "kubernetes", _TESTS / "oracle")


def pin(module: Path, release: str) -> None:
    """Make a Go module depend on the release, and tidy it."""
    file = module / "go.mod"
    text = file.read_text()
    for old, new in (
        (KUBERNETES_VERSION, release),
        (_staging(KUBERNETES_VERSION), _staging(release)),
    ):
        text = text.replace(old, new)
    file.write_text(text)
    for name in _staging_modules(module, release):
        if f"{name} =>" not in text:
            _go(module, "mod", "edit", f"-replace={name}={name}@{_staging(release)}")
    _go(module, "mod", "tidy")


def _staging_modules(module: Path, release: str) -> list[str]:
    """The modules that live in Kubernetes' own repository and have a version beside it."""
    said = _go(module, "mod", "download", "-json", f"k8s.io/kubernetes@{release}")
    return re.findall(
        r"^\t(k8s\.io/\S+) v0\.0\.0$", Path(json.loads(said)["GoMod"]).read_text(), re.M
    )


def _staging(release: str) -> str:
    return release.replace("v1.", "v0.", 1)


def _go(module: Path, *arguments: str) -> str:
    done = subprocess.run(["go", *arguments], cwd=module, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{module}: go {' '.join(arguments)} failed")
    return done.stdout


def main(arguments: list[str]) -> None:
    """Pin the release that is named."""
    if len(arguments) != 1 or not re.fullmatch(r"v1\.\d+\.\d+", arguments[0]):
        sys.exit("usage: python -m e2e.pin v1.MINOR.PATCH")
    for module in MODULES:
        pin(module, arguments[0])
    file = Path(version.__file__)
    file.write_text(file.read_text().replace(KUBERNETES_VERSION, arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
