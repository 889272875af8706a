"""What the parsers of several commands share: how a command is added, and its usual arguments."""

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_HIGHEST_PORT = 65535


def add_command(
    commands: Any, name: str, text: str, description: str, epilog: str = ""
) -> argparse.ArgumentParser:
    """A parser for one more command; `text` is its line in the list of commands."""
    formatter = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=description,
        epilog=epilog,
        formatter_class=formatter,
        allow_abbrev=False,
    )
    return parser


def add_manifests(parser: argparse._ActionsContainer, *, required: bool = False) -> None:
    """Let a command read manifests: `args.paths`."""
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=None if required else [],
        required=required,
        dest="paths",
        metavar="FILE|DIR|-",
        help="manifests, YAML or JSON; - reads standard input; may be repeated",
    )


def add_output(parser: argparse.ArgumentParser, what: str) -> None:
    """Let a command print tables, JSON or YAML."""
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "wide", "json", "yaml"],
        default="table",
        help=f"how to print the {what} (default: table)",
    )


def add_served(parser: argparse.ArgumentParser) -> None:
    """Let a command serve an API: on which port, and where its kubeconfig goes."""
    parser.add_argument("--port", type=port, default=0, metavar="PORT", help="0 picks a free one")
    parser.add_argument(
        "--write-kubeconfig", type=Path, metavar="PATH", help="where to write the kubeconfig"
    )


@contextlib.contextmanager
def kubeconfig_path(wanted: Path | None) -> Iterator[Path]:
    """Where the kubeconfig goes: as wanted, or to a file for as long as the command runs."""
    with contextlib.ExitStack() as stack:
        if wanted is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="moorage-"))
            wanted = Path(folder, "kubeconfig")
        yield wanted


def positive(*, allow_zero: bool = False) -> Callable[[str], int]:
    """A whole number of at least one, or zero if that makes sense."""
    smallest = 0 if allow_zero else 1

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number >= {smallest}, got {text!r}")
        return number

    return parse


def port(text: str) -> int:
    """A TCP port; 0 stands for a free one."""
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_HIGHEST_PORT}, got {text!r}")
    return int(text)
