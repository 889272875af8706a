"""The `moorage` command: its subcommands, exit codes and the last guard against tracebacks."""

import argparse
import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from moorage.cli.arguments import text
from moorage.cli.output import fail
from moorage.cli.startup import print_safely, spare_threads
from moorage.errors import MoorageError
from moorage.version import KUBERNETES_VERSION, __version__

_INTERRUPTED = 130
_PIPE_CLOSED = 141
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What only writing runs into."""

_DESCRIPTION = (
    f"kube-scheduler {KUBERNETES_VERSION}, written in Python: for live clusters, and without any.\n"
)
_COMMANDS = (
    "schedule",
    "explain",
    "simulate",
    "sweep",
    "record",
    "up",
    "scheduler",
    "config",
    "plugin",
    "apiserver",
    "kubelets",
    "conformance",
    "bench",
)


_SERVERS = frozenset({"scheduler", "up", "apiserver", "kubelets", "record"})
"""Commands that are of use without an output."""


def build_parser(only: str = "") -> argparse.ArgumentParser:
    """The parser of the whole command line, or of that of one command.

    Loading all commands takes longer than many of them run.
    """
    parser = argparse.ArgumentParser(
        prog="moorage",
        description=_DESCRIPTION,
        epilog=text("moorage"),
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
    print_safely()
    words = sys.argv[1:] if argv is None else list(argv)
    closed = _without_gaps()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without UTF-8 is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    if closed and not _SERVERS.intersection(words[:1]):
        return fail("standard output is closed: there is nowhere to write to")
    try:
        try:
            return _run(words)
        finally:  # also for a help text, whose printing ends the command
            sys.stdout.flush()
    except MoorageError as error:
        return fail(str(error))
    except RecursionError:
        return fail("the input is nested too deeply")
    except MemoryError:
        return fail("there is not enough memory for this input")
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        _give_up_output()
        return _PIPE_CLOSED
    except OSError as error:
        if error.filename is not None or (error.errno not in _FULL and _output_works()):
            raise  # nobody expected it of another file
        _give_up_output()
        return fail(f"standard output cannot be written: {error.strerror or error}")


def _run(words: list[str]) -> int:
    if words[:1] == ["scheduler"]:
        # It stands in for kube-scheduler, down to the exit code for a wrong flag.
        from moorage.cli import scheduler

        return scheduler.main(words[1:])
    if words[:1] == ["simulate"]:
        from moorage.cli import simulate

        words = simulate.spelled_out(words)
    if words[:1] == ["sweep"]:
        from moorage.cli import sweep

        words = sweep.spelled_out(words)
    args = build_parser(words[0] if words else "").parse_args(words)
    code: int = args.run(args)
    return code


def _without_gaps() -> bool:
    """Put something in the place of closed outputs; was it standard output?

    Where there is none, Python prints nowhere, and what goes to standard error to standard output.
    """
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if sys.stdout is not None:
        return False
    sys.stdout = _nowhere()
    return True


def _nowhere() -> TextIO:
    return open(os.devnull, "w")


def _output_works() -> bool:
    """Can what was printed still be written? Then it was another file, or a connection."""
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _give_up_output() -> None:
    """Point the output elsewhere: Python would complain once more on exit, when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
