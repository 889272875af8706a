"""How commands print: tables, JSON, YAML, and the one sentence of an error."""

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import yaml

from moorage.simulator.documents import plain_words

BAD_INPUT = 1
_GAP = "  "
_UNSEEN = re.compile(r"[^\n -~]")


def fail(sentence: str, program: str = "moorage") -> int:
    """Say what is wrong in one line; returns the exit code."""
    print(f"{program}: error: {printable(' '.join(sentence.split()))}", file=sys.stderr)
    return BAD_INPUT


def warn(sentence: str) -> None:
    """Say what was left out."""
    print(f"moorage: warning: {printable(' '.join(sentence.split()))}", file=sys.stderr)


def printable(text: str) -> str:
    r"""The text with control and invisible characters spelled out (`\x1b`), on one line.

    What users write into objects must not move the cursor of whoever looks at them.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


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
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    print(text, end="")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """Columns as wide as their widest cell; the last one is never padded.

    `right` names the columns to align right, by place: "r" or anything else for left.
    """
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]
    for row in [header, *rows]:
        cells = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            if right[place : place + 1] == "r":
                cells.append(cell.rjust(width))
            else:
                cells.append(cell if place == len(row) - 1 else cell.ljust(width))
        print(_GAP.join(cells).rstrip())
