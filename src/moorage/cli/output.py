"""How commands print: lines, tables, JSON, YAML, and the one sentence of an error.

Owns that no text from an object can control the terminal: other modules of the command line print
text that is not their own with these functions.
"""

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from moorage.printable import printable
from moorage.redaction import redacted
from moorage.simulator.documents import plain_words

BAD_INPUT = 1
_GAP = "  "
_UNSEEN = re.compile(r"[^\n -~]")


def fail(sentence: str, program: str = "moorage") -> int:
    """Say what is wrong in one line; returns the exit code."""
    print(f"{program}: error: {_one_line(sentence)}", file=sys.stderr)
    return BAD_INPUT


def warn(sentence: str) -> None:
    """Say what was left out."""
    print(f"moorage: warning: {_one_line(sentence)}", file=sys.stderr)


def _one_line(sentence: str) -> str:
    return redacted(printable(" ".join(sentence.split())))


def print_line(text: str) -> None:
    """One line, whatever characters it contains."""
    print(printable(text))


def say(text: str) -> None:
    """A message of a command that keeps running, on standard error at once."""
    print(printable(text, keep="\n"), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """Indented JSON; characters that a terminal would obey are escaped, which JSON reads back."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print(_UNSEEN.sub(_escaped, text))


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable():
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


class _Dumper(yaml.SafeDumper):
    """Quotes text that PyYAML reads back as text, but Go (kubectl) as a number or a boolean."""


for _words in plain_words():
    _Dumper.add_implicit_resolver(*_words)


def print_yaml(value: Any) -> None:
    """Block-style YAML in the order given."""
    print_yaml_text(
        lambda unicode: yaml.dump(
            value, Dumper=_Dumper, sort_keys=False, allow_unicode=unicode, width=1_000_000
        )
    )


def print_yaml_text(dump: Callable[[bool], str]) -> None:
    """What `dump` writes with Unicode, or without it if the text could control a terminal.

    PyYAML then escapes all that is not ASCII, which YAML reads back.
    """
    text = dump(True)
    safe = text.replace("\n", "").isprintable()
    print(text if safe else dump(False), end="")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Columns as wide as their widest cell; the last one is never padded.

    `right` names the columns to align right, by place: "r" or anything else for left.
    """
    lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[place]) for row in lines) for place in range(len(header))]
    for row in lines:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if right[place : place + 1] == "r":
                cells.append(cell.rjust(width))
            else:
                cells.append(cell if place == len(row) - 1 else cell.ljust(width))
        print(_GAP.join(cells).rstrip())
