"""`moorage scheduler` and `moorage-scheduler`: schedule the pods of a live cluster.

Takes kube-scheduler's flags, which `app` reads; here is only the way in.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from moorage.cli.startup import print_safely, spare_threads

if TYPE_CHECKING:  # it brings NumPy, which `--help` does without
    from moorage.framework.plugin import Plugin


def add_parser(commands: Any) -> None:
    """Add `moorage scheduler` to the list of commands; `cli.main` hands its words to `main`."""
    commands.add_parser(
        "scheduler",
        help="schedule the pods of a live cluster, as kube-scheduler does",
        add_help=False,
    )


def main(argv: Sequence[str] | None = None, *, plugins: "Iterable[type[Plugin]]" = ()) -> int:
    """`moorage-scheduler`."""
    spare_threads()
    print_safely()
    from moorage.app.run import main as run

    return run(sys.argv[1:] if argv is None else argv, plugins)


def scheduler_command(
    *, plugins: "Iterable[type[Plugin]]" = ()
) -> Callable[[Sequence[str] | None], int]:
    """`moorage-scheduler` with plugins of one's own, for a `main` of one's own to call.

    The command takes the words of a command line (None: those of this process) and returns the exit
    code.
    """
    return functools.partial(main, plugins=tuple(plugins))


if __name__ == "__main__":
    sys.exit(main())
