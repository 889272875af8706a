"""`moorage-scheduler`: the place of the kube-scheduler binary.

Live clusters come with a later version; until then the command says so and points to what there is.
"""

import argparse
import sys
from collections.abc import Sequence

from moorage.cli.output import fail
from moorage.version import KUBERNETES_VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="moorage-scheduler",
        allow_abbrev=False,
        description="Schedules the pods of a live cluster, as kube-scheduler does. This version of "
        "Moorage does not do that yet: `moorage schedule` places the pods of manifest files.",
    )
    parser.add_argument("--version", action="version", version=f"Kubernetes {KUBERNETES_VERSION}")
    # Flags of kube-scheduler are let through so that they get the same clear answer.
    parser.parse_known_args(argv)
    return fail(
        "live clusters are not supported by this version; "
        "`moorage schedule -f FILE` places the pods of manifest files",
        parser.prog,
    )


if __name__ == "__main__":
    sys.exit(main())
