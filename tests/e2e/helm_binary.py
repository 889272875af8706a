"""Finds or builds the Helm program that renders the chart.

`MOORAGE_E2E_HELM` may name one; otherwise it is built once from the Go module in helm/. A `helm`
that happens to be on the path is not used: what a chart renders to depends on the version.
"""

import os
from pathlib import Path

from e2e.go_programs import GoPrograms, UnavailableError

_PROGRAMS = GoPrograms(
    "helm", Path(__file__).with_name("helm"), {"helm": "helm.sh/helm/v3/cmd/helm"}
)


def find_or_build_helm() -> Path:
    """The program, built first where that is needed; UnavailableError where it is impossible."""
    named = os.environ.get("MOORAGE_E2E_HELM")
    if not named:
        return _PROGRAMS.built() / "helm"
    if not os.access(named, os.X_OK):
        raise UnavailableError(f"MOORAGE_E2E_HELM names {named}, which is no program")
    return Path(named)
