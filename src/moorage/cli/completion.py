"""`moorage completion`: a script that lets a shell complete the command line."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from moorage.app.shell_completion import completion_script
from moorage.cli.arguments import add_command


def add_parser(commands: Any, whole: Callable[[], argparse.ArgumentParser]) -> None:
    """Add `moorage completion`; `whole` gives the parser of the whole command line."""

    def run(args: argparse.Namespace) -> int:
        sys.stdout.write(completion_script(args.shell, whole()))
        return 0

    add_command(commands, "completion", run)
