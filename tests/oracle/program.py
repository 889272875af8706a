"""Builds the oracle, from the Go files beside this one."""

from pathlib import Path

from e2e.go_programs import GoPrograms, kubernetes_link_flags
from moorage.version import KUBERNETES_VERSION

_PROGRAMS = GoPrograms(
    f"oracle-{KUBERNETES_VERSION}", Path(__file__).parent, {"oracle": "."}, kubernetes_link_flags()
)


def find_or_build_oracle() -> Path:
    """The program; UnavailableError where it cannot be built."""
    return _PROGRAMS.built() / "oracle"
