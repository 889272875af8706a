"""How commands print: tables, JSON, YAML, and the one sentence of an error."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import yaml

BAD_INPUT = 1
_GAP = "  "


def fail(sentence: str, program: str = "moorage") -> int:
    """Say what is wrong in one line; returns the exit code."""
    print(f"{program}: error: {' '.join(sentence.split())}", file=sys.stderr)
    return BAD_INPUT


def warn(sentence: str) -> None:
    """Say what was left out."""
    print(f"moorage: warning: {sentence}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_yaml(value: Any) -> None:
    """Block-style YAML in the order given."""
    print(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1_000_000), end="")


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
