"""The commands' texts and arguments, which `commands.yaml` holds, as parsers.

Owns the kinds of values that arguments have. What a command does with them is its module's part.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from moorage.model.duration import parse_duration
from moorage.model.labels import Selector, selector_from_labels
from moorage.model.meta import Json
from moorage.tables import read_table

Run = Callable[[argparse.Namespace], int]

_HIGHEST_PORT = 65535


def add_command(commands: Any, name: str, run: Run | Mapping[str, Run]) -> None:
    """Add a command; one that consists of others has a function for each of them."""
    _add(commands, name, _table()["commands"][name], run)


def workloads() -> Mapping[str, str]:
    """The workloads of benchmarks, and what they are."""
    found: Mapping[str, str] = _table()["workloads"]
    return found


def text(name: str) -> str:
    """A text of the help that is no command's own."""
    found: str = _table()["texts"][name]
    return found


@lru_cache(maxsize=1)
def _table() -> Json:
    table = read_table("moorage.cli", "commands.yaml", dict[str, Any])
    listed = "".join(f"  {name:<18}{text}\n" for name, text in table["workloads"].items())
    table["texts"]["workloads"] = f"workloads:\n{listed}\n{table['texts']['workloads']}"
    return table


def _add(commands: Any, name: str, entry: Json, run: Run | Mapping[str, Run]) -> None:
    epilog = entry.get("epilog", "")
    for mark, text in _table()["texts"].items():
        epilog = epilog.replace(f"@{mark}@", text)
    formatter = argparse.RawDescriptionHelpFormatter if epilog else argparse.HelpFormatter
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=entry["help"],
        description=entry["description"],
        epilog=epilog,
        formatter_class=formatter,
        allow_abbrev=False,
    )
    for argument in entry.get("arguments", ()):
        _add_argument(parser, argument)
    if isinstance(run, Mapping):
        inner = parser.add_subparsers(title=entry["title"], metavar=entry["metavar"], required=True)
        for one, inside in entry["commands"].items():
            _add(inner, one, inside, run[one])
    else:
        parser.set_defaults(run=run, parser=parser)


def _add_argument(parser: argparse._ActionsContainer, entry: Json) -> None:
    if "group" in entry:
        group = parser.add_argument_group(entry["group"])
        for argument in entry["arguments"]:
            _add_argument(group, argument)
    elif "one_of" in entry:
        choice = parser.add_mutually_exclusive_group(required=True)
        for argument in entry["one_of"]:
            _add_argument(choice, argument)
    else:
        options = {key: value for key, value in entry.items() if key != "flags"}
        if "type" in options:
            options["type"] = _TYPES[options["type"]]
        if options.get("const") == "sample":
            options["const"] = str(files("moorage") / "samples" / "harbour.yaml")
        if options.get("choices") == "workloads":
            options["choices"] = list(workloads())
        parser.add_argument(*entry["flags"].split(), **options)


def _number(smallest: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number >= {smallest}, got {text!r}")
        return number

    return parse


def _port(text: str) -> int:
    """A TCP port; 0 stands for a free one."""
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_HIGHEST_PORT}, got {text!r}")
    return int(text)


def _given_path(text: str) -> Path:
    if not text:  # `Path` would take it for the current directory
        raise argparse.ArgumentTypeError("expected a file or a directory, got nothing")
    return Path(text)


def _url(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected a URL, got nothing")
    return text


def _namespace_and_name(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise argparse.ArgumentTypeError(f"expected NAMESPACE/NAME, got {text!r}")
    return namespace, name


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text).seconds
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"expected a duration such as 90s or 2h, got {text!r}")
    return seconds


def _pairs(text: str) -> Selector:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(key and equals for key, equals, _ in pairs):
        raise argparse.ArgumentTypeError(f"expected KEY=VALUE,KEY=VALUE, got {text!r}")
    return selector_from_labels({key: value for key, _, value in pairs})


_TYPES: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "natural": _number(0),
    "positive": _number(1),
    "port": _port,
    "path": Path,
    "given-path": _given_path,
    "url": _url,
    "namespace-and-name": _namespace_and_name,
    "pairs": _pairs,
    "duration": _duration,
}


@contextlib.contextmanager
def kubeconfig_path(wanted: Path | None) -> Iterator[Path]:
    """Where the kubeconfig goes: as wanted, or to a file for as long as the command runs."""
    with contextlib.ExitStack() as stack:
        if wanted is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="moorage-"))
            wanted = Path(folder, "kubeconfig")
        yield wanted
