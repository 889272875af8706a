"""How commands print: lines, tables, JSON, YAML, and the one sentence of an error.

Owns that no text from an object can control the terminal: other modules of the command line print
text that is not their own with these functions.
"""

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from moorage.config.documents import plain_value
from moorage.errors import InputError
from moorage.printable import printable
from moorage.redaction import redacted

BAD_INPUT = 1
_GAP = "  "
_NARROWEST = 24
"""A last column with less room than this goes below its row: it would be a ribbon of words."""
_BELOW = " " * 8
_TEXT = "tag:yaml.org,2002:str"
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

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """What is taken for no text has another tag than text, and so is quoted if it is one."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        is_plain = kind is yaml.ScalarNode and implicit[0]
        return "!" if is_plain and tag == _TEXT and not isinstance(plain_value(value), str) else tag


def print_yaml(value: Any) -> None:
    """Block-style YAML in the order given."""
    print_yaml_text(lambda unicode: yaml_text(value, unicode=unicode))


def yaml_text(value: Any, *, unicode: bool = False) -> str:
    """Block-style YAML in the order given, which kubectl reads alike."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=unicode, width=1_000_000
    )
    return text


def print_yaml_text(dump: Callable[[bool], str]) -> None:
    """What `dump` writes with Unicode, or without it if the text could control a terminal.

    PyYAML then escapes all that is not ASCII, which YAML reads back.
    """
    text = dump(True)
    safe = text.replace("\n", "").isprintable()
    print(text if safe else dump(False), end="")


def print_as(output: str, value: Any) -> None:
    """As `json` or as `yaml`."""
    (print_json if output == "json" else print_yaml)(value)


def write_file(path: Path, content: bytes) -> None:
    """Write the file that a flag names."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
    """A table, whatever the width of the terminal; see `table`."""
    for line in table(header, rows, right=right):
        print(line)


class Printer:
    """Prints sections, with an empty line between two."""

    def __init__(self, *, wide: bool) -> None:
        self.wide = wide
        # Whoever asks for wide output scrolls sideways.
        self.width = None if wide else terminal_width()
        self._begun = False

    def sentence(self, text: str) -> None:
        """One sentence that stands alone."""
        self.section("", paragraph(text, self.width))

    def table(
        self, title: str, header: Sequence[str], rows: Sequence[Sequence[str]], right: str = ""
    ) -> None:
        self.section(title, table(header, rows, right=right, width=self.width))

    def section(self, title: str, lines: Iterable[str]) -> None:
        if self._begun:
            print()
        self._begun = True
        for line in paragraph(title, self.width) if title else ():
            print(line)
        self.more(lines)

    def more(self, lines: Iterable[str]) -> None:
        """More lines of the latest section; the only way out for values of objects."""
        for line in lines:
            print(printable(line))


def terminal_width() -> int | None:
    """How many characters fit in a line; None where nobody reads at a terminal."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, 40)
    return None


def paragraph(text: str, width: int | None, *, hang: str = "") -> list[str]:
    """Text in lines of the width given; `hang` begins all but the first."""
    text = printable(text)
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent=hang, break_on_hyphens=False)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: str = "",
    width: int | None = None,
) -> list[str]:
    """Columns as wide as their widest cell; the last is wrapped where the line ends, or below.

    `right` names the columns to align right, by place: "r" or anything else for left.
    """
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    last = len(header) - 1
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    before = sum(widths[:last]) + len(_GAP) * last
    room = None if width is None else width - before
    crowded = room is not None and room < min(_NARROWEST, widths[last])
    if crowded:
        cells[0] = [*cells[0][: last - 1], " / ".join(cells[0][last - 1 :]), ""]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(space) if right[place : place + 1] == "r" else cell.ljust(space)
            for place, (cell, space) in enumerate(zip(row[:last], widths, strict=False))
        ]
        begun = _GAP.join([*padded, ""])
        text = row[last].rjust(widths[last]) if right[last : last + 1] == "r" else row[last]
        if crowded and width is not None:
            lines += [begun.rstrip(), *_below(text, width)]
        elif room is not None and len(text) > room:
            first, *more = textwrap.wrap(text, room, break_on_hyphens=False)
            lines += [begun + first, *(" " * before + line for line in more)]
        else:
            lines.append((begun + text).rstrip())
    return lines


def _below(text: str, width: int) -> list[str]:
    """The last cell of a row that has no room for it, in lines of its own."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=_BELOW,
        subsequent_indent=_BELOW,
        break_on_hyphens=False,
    )


def widest(lines: Sequence[str]) -> int:
    """The length of the longest line."""
    return max(map(len, lines), default=0)


def shortened(names: Sequence[str], total: int, most: int = 3) -> str:
    """A few names, and how many more there are of `total`."""
    shown = ", ".join(names[:most])
    left = total - min(len(names), most)
    if left <= 0:
        return shown
    return f"{shown} and {left} more" if shown else ""


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
