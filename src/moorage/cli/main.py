"""The `moorage` command: its subcommands, exit codes and the last guard against tracebacks."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from moorage.cli.numeric_threads import spare_threads
from moorage.cli.output import fail
from moorage.errors import MoorageError
from moorage.version import KUBERNETES_VERSION, __version__

_INTERRUPTED = 130
_PIPE_CLOSED = 141

_DESCRIPTION = f"""\
kube-scheduler {KUBERNETES_VERSION}, written in Python: for live clusters, and without any.
"""

_EPILOG = """\
examples:
  moorage schedule -f cluster.yaml                        where would every pod go?
  moorage explain pod batch/job-0 -f cluster.yaml         why does this pod go there, or nowhere?
  moorage explain pod batch/job-0 --kubeconfig kc         the same in a cluster, which is only read
  moorage conformance golden/                             compare with recorded decisions
  moorage bench engine --nodes 5000 --pods 1000 --workload basic

exit codes: 0 done, 1 something in the input is wrong, 2 wrong usage; commands that answer a
question have a 3 for no (see their --help).
"""


_COMMANDS = (
    "schedule",
    "explain",
    "up",
    "scheduler",
    "config",
    "apiserver",
    "conformance",
    "bench",
)


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command line, or of that of one command.

    Loading all commands takes longer than many of them run.
    """
    parser = argparse.ArgumentParser(
        prog="moorage",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"moorage {__version__} (kube-scheduler {KUBERNETES_VERSION})",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in (only,) if only in _COMMANDS else _COMMANDS:
        import_module(f"moorage.cli.{name}").add_parser(commands)
    if only not in _COMMANDS:
        from moorage.cli import completion

        completion.add_parser(commands, build_parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    spare_threads()
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        if words[:1] == ["scheduler"]:
            # It stands in for kube-scheduler, down to the exit code for a wrong flag.
            from moorage.cli import scheduler

            return scheduler.main(words[1:])
        args = build_parser(words[0] if words else "").parse_args(words)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except MoorageError as error:
        return fail(str(error))
    except RecursionError:
        return fail("the input is nested too deeply")
    except MemoryError:
        return fail("there is not enough memory for this input")
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain once more on exit when
        # it flushes, so the output is pointed elsewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED


if __name__ == "__main__":
    sys.exit(main())
