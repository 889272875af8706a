"""`moorage bench`: which module measures what.

They bring libraries that nobody who does not measure should wait for, so each is loaded when it is
called.
"""

import argparse
from functools import partial
from importlib import import_module
from typing import Any

from moorage.cli.arguments import add_command


def add_parser(commands: Any) -> None:
    """Add `moorage bench`."""
    kinds = ("engine", "api", "perf")
    add_command(commands, "bench", {kind: partial(_measure, kind) for kind in kinds})


def _measure(kind: str, args: argparse.Namespace) -> int:
    code: int = import_module(f"moorage.cli.bench_{kind}").run(args)
    return code
