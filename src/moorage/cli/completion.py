"""`moorage completion`: a script that lets a shell complete the command line."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from moorage.app.shell_completion import SHELLS, completion_script
from moorage.cli.arguments import add_command

_EPILOG = """\
examples:
  source <(moorage completion bash)
  source <(moorage completion zsh)
  moorage completion fish | source
"""


def add_parser(commands: Any, whole: Callable[[], argparse.ArgumentParser]) -> None:
    """Add `moorage completion`; `whole` gives the parser of the whole command line."""
    parser = add_command(
        commands,
        "completion",
        "print a script for completion in bash, zsh or fish",
        "Print a script that lets a shell complete commands, flags and files.",
        _EPILOG,
    )
    parser.add_argument("shell", choices=sorted(SHELLS), help="the shell to print it for")

    def run(args: argparse.Namespace) -> int:
        sys.stdout.write(completion_script(args.shell, whole()))
        return 0

    parser.set_defaults(run=run)
