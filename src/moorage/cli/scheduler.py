"""`moorage scheduler` and `moorage-scheduler`: schedule the pods of a live cluster.

Takes kube-scheduler's flags, which `app` reads; here is only the way in.
"""

import sys
from collections.abc import Sequence
from typing import Any

from moorage.cli.startup import print_safely, spare_threads


def add_parser(commands: Any) -> None:
    """Add `moorage scheduler` to the list of commands; `cli.main` hands its words to `main`."""
    commands.add_parser(
        "scheduler",
        help="schedule the pods of a live cluster, as kube-scheduler does",
        add_help=False,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """`moorage-scheduler`."""
    spare_threads()
    print_safely()
    from moorage.app.run import main as run

    return run(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
